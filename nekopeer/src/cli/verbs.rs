//! The words that the command line and the REPL share, and the commands that they mean.

use nekoproto::FileName;

use super::show;
use crate::{
    api::{Command, Failure, Limit, NoCommand, Saying, Share},
    publish::PolicyChange,
    terminal::Output,
};

/// What a peer can be asked to do.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Verb {
    /// A command.
    #[command(flatten)]
    Command(Command),
    /// The same as share; a second word that is no file is the name: register PATH NAME
    #[command(hide = true)]
    Register(Share),
    /// Pause all downloads of the running peer, until it ends; what came is kept
    Pause,
    /// Have paused downloads go on
    Resume,
}

impl Verb {
    /// `None`: it is wrong usage, which was said. Reads the files of names that it mentions.
    pub(super) fn command(self, saying: Saying, output: Output) -> anyhow::Result<Option<Command>> {
        let has_policy = saying.line.is_some_and(|said| said != PolicyChange::default());
        let why = match self.meant(saying).said(saying) {
            Ok(command) if command.api().about().is_bytes && output.is_json() => {
                "--json and -o - would both write to stdout".into()
            }
            Ok(command) if has_policy && !command.api().about().has_policy => {
                "only what is shared has a policy".into()
            }
            Ok(command) => return Ok(Some(command)),
            Err(NoCommand::Usage(why)) => why,
            Err(NoCommand::Failed(error)) => return Err(error),
        };
        show::failure(&Failure::invalid(why), output);
        Ok(None)
    }

    fn meant(self, saying: Saying) -> Command {
        match self {
            Self::Command(command) => command,
            Self::Register(share) => share.with_name_as_second_word(saying).into(),
            Self::Pause => Limit::pausing(true).into(),
            Self::Resume => Limit::pausing(false).into(),
        }
    }

    pub(super) fn names(&self) -> Vec<&FileName> {
        match self {
            Self::Command(command) => command.api().about().names,
            Self::Register(_) | Self::Pause | Self::Resume => Vec::new(),
        }
    }
}
