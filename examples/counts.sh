#!/bin/sh
# An agent in POSIX shell: the arm with the largest share of rewards so far, and one time in ten the next in turn.
set -f
arms=0 decided=0
while read -r line; do
    case $line in
    '{"do":"start"'*)
        list=${line#*'"arms":['} IFS=,
        for name in ${list%%]*}; do # names stay as JSON has them; crude: none may hold a comma or a bracket
            eval "name_$arms=\$name right_$arms=1 told_$arms=2"
            arms=$((arms + 1))
        done ;;
    '{"do":"decide"'*)
        id=${line#*'"id":'} id=${id%%,*} decided=$((decided + 1)) arm=0 other=1
        while [ "$other" -lt "$arms" ]; do # right/told of one above that of the other, without fractions
            [ $((right_$other * told_$arm)) -gt $((right_$arm * told_$other)) ] && arm=$other
            other=$((other + 1))
        done
        [ $((decided % 10)) -eq 0 ] && arm=$((decided / 10 % arms))
        eval "chosen_$id=$arm; echo \"{\\\"arm\\\":\$name_$arm}\""
        continue ;;
    '{"do":"feedback"'*)
        id=${line#*'"id":'} id=${id%%,*} reward=${line#*'"reward":'} arm=$((chosen_$id))
        case $reward in null*) ;; *) eval "told_$arm=$((told_$arm + 1))" ;; esac
        case $reward in 1* | 0.[5-9]*) eval "right_$arm=$((right_$arm + 1))" ;; esac ;;
    esac
    echo '{"ok":true}' # warm_start, which this agent does not use, is answered too
done
