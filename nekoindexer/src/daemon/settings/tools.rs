//! What a program does besides its work: checks its configuration, and writes completions and man pages.

use std::{fs, path::PathBuf};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use super::completion;

/// What is asked for instead of the program's own work.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Tool {
    /// Check the configuration: file, environment and flags
    #[command(subcommand)]
    Config(Config),
    /// Print what a shell needs to complete commands, flags and names
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or that of a command (to be read by `man -l -`)
    Man {
        /// The command
        command: Option<String>,
        /// A folder that all pages are written to, instead
        #[arg(short, long, value_name = "FOLDER", conflicts_with = "command")]
        output: Option<PathBuf>,
    },
}

/// What can be done with the configuration.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Config {
    /// Show what is in force and who says so; exit code 2 if something is wrong
    Check {
        /// The configuration file [default: the one that the program would read]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Output for machines: one JSON object
        #[arg(long)]
        json: bool,
    },
}

impl Tool {
    pub(super) fn run(&self, command: Command) -> Result<String, String> {
        let mut text = Vec::new();
        match self {
            Self::Config(_) => {}
            Self::Completions { shell } => {
                text = completion::script(*shell, command.get_name())?.into_bytes();
            }
            Self::Man { output: Some(folder), .. } => {
                let mut pages = pages(&command).into_iter();
                let written = fs::create_dir_all(folder)
                    .and_then(|()| pages.try_for_each(|page| Man::new(page).generate_to(folder).map(drop)));
                written.map_err(|error| format!("cannot write to {}: {error}", folder.display()))?;
            }
            Self::Man { command: None, .. } => render(page(command), &mut text)?,
            Self::Man { command: Some(name), .. } => {
                let unknown = || format!("there is no command {name}: --help lists them");
                let pages = pages(&command).into_iter();
                let full = format!("{}-{name}", command.get_name());
                let page = pages.into_iter().find(|page| page.get_name() == full).ok_or_else(unknown)?;
                render(page, &mut text)?;
            }
        }
        String::from_utf8(text).map_err(|error| error.to_string())
    }
}

/// The pages of a program: its own, and one for each command.
fn pages(command: &Command) -> Vec<Command> {
    let name = command.get_name();
    let of_commands = command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(|sub| {
        let version = command.get_version().unwrap_or_default().to_owned();
        let page = sub.clone().name(format!("{name}-{}", sub.get_name())).version(version);
        let page = page.bin_name(format!("{name} {}", sub.get_name())).disable_help_flag(true);
        page.disable_version_flag(true).after_help(format!("{name}(1) explains the flags of a node."))
    });
    std::iter::once(page(command.clone())).chain(of_commands).collect()
}

fn page(command: Command) -> Command {
    command.disable_help_subcommand(true)
}

fn render(page: Command, text: &mut Vec<u8>) -> Result<(), String> {
    Man::new(page).render(text).map_err(|error| error.to_string())
}
