//! The commands in groups, one line each: what `nekopeer -h` and `help` in the REPL print.

/// The commands that the REPL knows too.
pub(super) const USAGE: &str = "\
Everyday:
share PATH...           share files and the files of folders, again after a change
get NAME...             download the newest versions, verified; -o PATH says where to
follow NAME...          keep the newest versions in place until Ctrl-C; --exec COMMAND runs on each
search TERM...          find files in the network by name, words or 'globs'
ls [NAME...]            list what is shared and held here
status [NAME...]        the same, after asking the origins of copies; of names all that is known
Versions and names:
unshare NAME...         share them no longer; the files stay
ticket NAME...          print what to type elsewhere to get them
rollback NAME [N]       put an earlier version that is kept back in its place
wait NAME [--all]       wait until the newest version is here, or at all that read it
forget READER           count a reader that will not come back no longer
Running peer:
stop                    end the peer that runs on this folder
jobs                    list the long commands that run, and those that ended lately
cancel NAME|ID          interrupt one; what came so far is kept
limit [--up RATE]       limit how fast it sends (--up) and fetches (--down)
pause                   pause all downloads; what came is kept
resume                  have them go on
Network and node:
query NAME... [--ttl N] ask who has an exact name, N hops far
trace NAME [--ttl N]    show which indexers a query reaches, which not and why
Here:
help or ?               print this text
exit                    end (also: Ctrl-D)
Words with spaces are 'quoted'. A `&` at the end of get goes on in the background.";

/// Where the texts of [`USAGE`] begin.
pub(super) const TEXT_AT: usize = 24;
/// The group of the REPL itself, and what follows it.
const DIALOGUE: &str = "Here:\n";

/// The commands that only the program has.
const PROGRAM: &str = "\
serve                   keep serving what is shared, until Ctrl-C or SIGTERM
demo                    show the whole story in one process, on real files in a temporary folder
id | repair             print the id that lists of allowed nodes name; mend a damaged catalogue
config | completions    check the configuration; print what a shell needs; `man` prints the manual
";

pub(super) fn grouped(command: clap::Command) -> clap::Command {
    let verbs = USAGE.split(DIALOGUE).next().unwrap_or_default();
    let groups: String = [verbs, PROGRAM]
        .concat()
        .lines()
        .map(|line| if line.ends_with(':') { format!("{line}\n") } else { format!("  {line}\n") })
        .collect();
    let more = "`nekopeer COMMAND -h` lists the flags of a command; --help lists all.";
    command
        .mut_subcommands(|command| command.hide(true))
        .override_usage("nekopeer [OPTIONS] [COMMAND]; without one, lines of commands are read")
        .help_template(format!(
            "{{about-with-newline}}{{usage-heading}} {{usage}}\n{groups}{{all-args}}{{after-help}}"
        ))
        .after_help(more)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Args;

    #[test]
    fn each_command_has_a_line_and_the_short_help_fits_a_page() {
        let command = Args::command();
        let names =
            command.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
        let lines: Vec<&str> = USAGE.lines().chain(PROGRAM.lines()).collect();
        for name in names {
            assert!(lines.iter().any(|line| line.split(['|', ' ', '`']).any(|word| word == name)), "{name}");
        }
        let short = grouped(Args::command()).term_width(100).render_help().to_string();
        assert!(short.lines().count() <= 40, "{short}");
        for verb in ["share", "get", "follow", "search", "ls", "status"] {
            let mut command = Args::command().term_width(100);
            command.build();
            let short = command.find_subcommand_mut(verb).unwrap().render_help().to_string();
            assert!(short.lines().count() <= 40, "{short}");
        }
    }
}
