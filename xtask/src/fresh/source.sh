# With Rust: what the README asks for, then the demonstration, then the tests.
# shellcheck shell=sh disable=SC2154
cp -r /fresh/repository $home/rocescope
chown -R $user: $home/rocescope
# Rust without something to link with builds nothing, not even `cargo xtask`: the README says so.
part requirement 'sudo apt-get update --quiet=2 && sudo apt-get install --yes --quiet=2 gcc libc6-dev'
for wanted in $(cat /fresh/wanted); do
    case $wanted in
    demo)
        part demo 'cd rocescope && cargo xtask demo' && demonstrated
        ;;
    test)
        part test 'cd rocescope && cargo xtask test'
        explained test
        grep -hE '^xtask: (SKIP|[0-9]+ skipped|passed at|all tests)' /tmp/test.err | sort | uniq
        ;;
    esac
done
