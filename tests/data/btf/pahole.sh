#!/bin/sh
# What pahole prints about the structures that rocescope reads, for the BTF files of a folder: structure, member (`-`: all of it),
# offset, length, and the structure that the member is.
set -eu
cd "$1"
members='^(device|real_qp|av_sgid_attr|qp_num|qp_type|port|qp_state|path_mtu|rq_psn|sq_psn|dest_qp_num|ah_attr|grh|dgid|flow_label|traffic_class|timeout|retry_cnt|rnr_retry|gid|name|element|event|kobj|ib_qp|qplib_qp)$'
for one in ib_core:ib_qp ib_core:ib_qp_attr ib_core:rdma_ah_attr ib_core:ib_global_route ib_core:ib_gid_attr \
    ib_core:ib_device ib_core:ib_event mlx5_core:mlx5_core_dev mlx5_core:device mlx5_core:kobject bnxt_re:bnxt_re_qp; do
    module=${one%%:*} structure=${one##*:}
    [ -e "$module" ] || continue
    pahole --btf_base=vmlinux -C "$structure" "$module" | awk -v structure="$structure" -v members="$members" '
        /^\t\/\* size: / { print structure, "-", 0, $3 + 0 }
        /; +\/\* +[0-9]+ +[0-9]+ \*\/$/ {
            count = split($0, words, /[ \t;\[\]*\/]+/)
            name = words[count - 3]
            # A length in brackets stands between name and offset.
            if (name ~ /^[0-9]+$/) name = words[count - 4]
            if (name ~ members) print structure, name, words[count - 2], words[count - 1] ($1 == "struct" && $0 !~ /\*[ ]+[a-z_]+;/ ? " " $2 : "")
        }'
done
