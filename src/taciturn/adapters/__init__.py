"""taciturn in the interfaces of other libraries; each adapter imports the one that it is for, and no other."""
