//! Any text as the configuration file, and a report with the resulting thresholds.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use rocescope::cli::config::{Config, agent_template, template};
use rocescope::report::Options;
use rocescope::tui::key::{KEYMAP, Keys};
use rocescope_fuzz::{judge, seeds, speakable, usual};

/// The files with all settings: complete, each section alone, and each setting in its section.
fn made() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for text in [template(), agent_template()] {
        let set: Vec<String> = text
            .lines()
            .filter_map(|line| match line.strip_prefix('#') {
                Some(setting) if !setting.starts_with(' ') => Some(setting.to_owned()),
                Some(_) => None,
                None => Some(line.to_owned()),
            })
            .collect();
        let whole = set.join("\n");
        seeds.extend(whole.split("\n\n").map(|section| section.as_bytes().to_vec()));
        seeds.push(whole.into_bytes());
    }
    seeds
}

fuzz_target!(init: seeds(made), |text: &str| {
    match Config::parse(text, Path::new("config.toml")) {
        Err(error) => {
            let error = format!("{error:#}");
            assert!(error.starts_with("config.toml: invalid "), "{error}");
            speakable(&error);
            if let Some(line) = error.split(" at line ").nth(1) {
                let line: usize = line.split(',').next().and_then(|line| line.parse().ok()).expect("a number");
                assert!((1..=text.matches('\n').count() + 1).contains(&line), "{error}");
            }
        }
        Ok(config) => {
            match Keys::new(&config.tui.keys) {
                Ok(keys) => KEYMAP.iter().for_each(|binding| speakable(&keys.shown(binding))),
                Err(error) => speakable(&error),
            }
            judge(usual(), &Options { limits: config.findings, ..Options::default() });
        }
    }
});
