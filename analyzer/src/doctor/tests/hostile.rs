//! Trees of `/proc` and `/sys` that no kernel shows: files that a user can shape, and those of a driver gone mad.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use rocescope_common::random::{Random, mix};

use super::*;
use crate::host::read::testing::{fifo, files_below};

fn change(path: &Path, random: &mut Random) {
    const NUMBERS: [&str; 9] = [
        "",
        "0",
        "-1",
        "18446744073709551615",
        "99999999999999999999999999",
        "0x7fffffffffffffff",
        "1e309 Gb/s (4X EDR)",
        "\u{1b}[2J\u{202e}4: ACTIVE\0\n\n",
        "\u{9b}2J\u{2066}eth0\u{85}\u{202a}",
    ];
    if path.is_dir() {
        // Changed before.
        return;
    }
    let mut bytes = fs::read(path).unwrap_or_default();
    let at = random.index(bytes.len());
    match random.index(8) {
        0 => bytes = NUMBERS[random.index(NUMBERS.len())].into(),
        1 => bytes.truncate(at),
        2 => bytes.iter_mut().skip(at).for_each(|byte| *byte ^= 0x80),
        3 => bytes = bytes.repeat(1 + random.index(3_000)),
        4 => bytes.splice(at..at, *b"=\0\xFF:").for_each(drop),
        5 => bytes = vec![b'9'; 70_000],
        6 => {
            let _ = fs::remove_file(path);
            fs::create_dir(path).unwrap();
            return;
        }
        _ => {
            let _ = fs::remove_file(path);
            symlink(path.file_name().unwrap(), path).unwrap();
            return;
        }
    }
    let _ = fs::remove_file(path);
    fs::write(path, bytes).unwrap();
}

/// Five seconds of them, or as many as `ROCESCOPE_MUTATE_SECONDS` says, of the seed `ROCESCOPE_MUTATE_SEED`.
/// `ROCESCOPE_MUTATE_TREE` repeats one. `cargo xtask mutate` runs this test by its name.
#[test]
fn mutated_trees_are_survived_in_time_and_without_control_characters() {
    let set = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let end = Instant::now() + Duration::from_secs(set("ROCESCOPE_MUTATE_SECONDS").unwrap_or(5));
    let (seed, only) = (set("ROCESCOPE_MUTATE_SEED").unwrap_or(1), set("ROCESCOPE_MUTATE_TREE"));
    let mut trees = only.map_or(0, |tree| tree - 1);
    while only.map_or(Instant::now() < end || trees < 3, |tree| trees < tree) {
        trees += 1;
        let mut random = Random::new(mix(seed) ^ mix(trees));
        let recorded = [MLX5, BNXT_RE, IRDMA, RXE][random.index(4)];
        let host = Recorded::unpack(&format!("{recorded}\n[]\n{}", environment(&["NCCL_IB_HCA=mlx5_0"])));
        let root = host.root();
        // All but the recorded answers of the kernel, which are in a format of the tests.
        let all = files_below(root.base(), &["proc", "sys"]);
        for _ in 0..=random.index(30) {
            change(&all[random.index(all.len())], &mut random);
        }
        let own = root.base().join("proc/4711/root/etc");
        let _ = fs::remove_dir_all(&own);
        fs::create_dir_all(&own).unwrap();
        match random.index(3) {
            0 => fifo(&own.join("hostname")),
            1 => symlink("/etc/passwd", own.join("hostname")).unwrap(),
            _ => fs::write(own.join("hostname"), "\u{1b}]0;title\u{7}\n").unwrap(),
        }
        let began = Instant::now();
        let page = Page::of(collect(&root, &host.kernel()));
        assert!(began.elapsed() < Duration::from_secs(20), "tree {trees} took {:?}", began.elapsed());
        let text = text::text(&page, true, 100);
        // As `is_hostile` of the integration tests.
        let hostile = |c: char| {
            c.is_control() && c != '\n' || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
        };
        assert!(!text.contains(hostile), "tree {trees}: {text:?}");
        assert!(!text.contains("root:x:0"), "tree {trees}: a link out of the process's root was followed");
        serde_json::from_str::<serde_json::Value>(&page.json().unwrap()).unwrap();
    }
    println!("{trees} trees");
}
