//! Discovery on a local network of two machines: two network namespaces with a cable between them, and multicast as
//! it is. Where the machine does not allow that, the tests say so; what announcements are believed is a unit test of
//! `nekoindexer::announce`.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use crate::program::*;

/// Two machines that see each other; `there` runs a command on the other one. All of it ends with the script.
const MACHINES: &str = r#"
set -eu
trap 'code=$?; [ $code = 0 ] || { echo "ended with $code"; tail -n 20 log shared* alone; } >&2' EXIT
ip link set lo up
unshare --net sleep 120 & other=$!
there() { nsenter --net --target $other "$@"; }
own=$(readlink /proc/$$/ns/net)
tries=0
while [ "$(readlink /proc/$other/ns/net)" = "$own" ]; do
    tries=$((tries + 1)); [ $tries -lt 500 ] || exit 90; sleep 0.01
done
ip link add here type veth peer name far
ip link set far netns $other
ip addr add 10.77.0.1/24 dev here
ip link set here up
there sh -c 'ip link set lo up; ip addr add 10.77.0.2/24 dev far; ip link set far up'
# Until $2 is in the file $1.
await() { tries=0; until grep -q "$2" "$1"; do tries=$((tries + 1)); [ $tries -lt 1000 ] || exit 91; sleep 0.02; done; }
# A question may get lost, so a command that should find something is repeated.
repeated() { tries=0; until "$@" >>log 2>&1; do tries=$((tries + 1)); [ $tries -lt 12 ] || exit 92; done; }
"#;

/// Runs `script` on two machines, in `home`; `None` if this machine cannot have them.
fn on_two_machines(home: &Home, script: &str) -> Option<Running> {
    let words = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"];
    let command = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(words).arg(script).env("NEKOPEER", env!("CARGO_BIN_EXE_nekopeer"));
        home.settle(&mut command);
        command.env_remove("NEKO_NO_DISCOVERY").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let is_possible = command(MACHINES).output().is_ok_and(|tried| tried.status.success());
    is_possible.then(|| Running::start_with(command(&format!("{MACHINES}{script}"))))
}

#[expect(clippy::print_stdout, reason = "says that nothing was tried")]
fn assert_works(script: &str) {
    let home = Home::with(&[]);
    home.write("a/f.txt", "hello\n");
    let Some(running) = on_two_machines(&home, script) else {
        println!("not tried: this machine allows no network namespaces");
        return;
    };
    let ended = running.wait_within(Duration::from_secs(90)).unwrap();
    assert!(
        ended.code == Some(0) && ended.out.last().is_some_and(|line| line == "all is well"),
        "{ended:#?}"
    );
}

#[test]
fn two_machines_need_no_address() {
    assert_works(
        r#"
"$NEKOPEER" --dir a share --lan a/f.txt >shared 2>&1 &
await shared "Ctrl-C stops"
ticket=$(grep -o 'neko:[a-z2-7]*' shared | head -n 1)
repeated there "$NEKOPEER" --dir b get f.txt
cmp a/f.txt b/f.txt
# A ticket needs no multicast.
there "$NEKOPEER" --dir c --no-discovery get "$ticket"
cmp a/f.txt c/f.txt
# Who may not listen to announcements, or is of another network, starts an indexer of its own.
there "$NEKOPEER" --dir d --no-discovery --discover 127.0.0.1:0 query f.txt 2>alone && exit 1
grep -q "started one at" alone
there "$NEKOPEER" --dir d --network other --discover 127.0.0.1:0 query f.txt 2>alone && exit 1
grep -q "started one at" alone
echo all is well
"#,
    );
}

#[test]
fn indexer_of_a_ticket_is_found_at_another_address_and_one_on_loopback_is_not_announced() {
    assert_works(
        r#"
"$NEKOPEER" --dir a share --discover 10.77.0.1:7001 a/f.txt >shared 2>&1 & first=$!
await shared "Ctrl-C stops"
ticket=$(grep -o 'neko:[a-z2-7]*' shared | head -n 1)
kill -INT $first; wait $first
echo "hello again" >a/f.txt
"$NEKOPEER" --dir a share --discover 10.77.0.1:7002 a/f.txt >shared2 2>&1 & first=$!
await shared2 "Ctrl-C stops"
repeated there "$NEKOPEER" --dir b get "$ticket"
cmp a/f.txt b/f.txt
kill -INT $first; wait $first
"$NEKOPEER" --dir a share a/f.txt >shared3 2>&1 &
await shared3 "this machine only"
there "$NEKOPEER" --dir c --discover 127.0.0.1:0 query f.txt 2>alone && exit 1
grep -q "started one at" alone
echo all is well
"#,
    );
}
