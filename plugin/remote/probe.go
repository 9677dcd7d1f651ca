package remote

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
)

// errLost means that the end of a command was not received.
var errLost = errors.New("the connection to the machine was lost")

// machine is what the probe found out about the builder machine.
type machine struct {
	// facts are the lines of the probe: arch in the kernel's spelling, elf (e_machine of
	// /bin/sh, two bytes in hexadecimal), uid, user, home, folder (the remote folder without
	// symbolic links), and tty, writable, kept and sudo where there is something to say.
	facts     map[string]string
	arch      string // in Go's spelling
	reaches   bool   // root, by itself or with the sudo command
	sudoSaid  string
	missing   []string // tools
	osRelease map[string]string
}

// arches maps the kernel's names (uname -m) to Go's.
var arches = map[string]string{"x86_64": "amd64", "aarch64": "arm64"}

// elfMachines are e_machine in the little-endian ELF files of an architecture;
// see elf(5).
var elfMachines = map[string]string{"amd64": "3e 00", "arm64": "b7 00"}

// probe finds out what the machine is, and fails when the agent cannot run there.
// It also detects a communicator that reports success without running anything.
// name is the random name of the session.
func probe(ctx context.Context, comm packersdk.Communicator, c Config, name string) (*machine, error) {
	out, said, end, err := output(ctx, comm, probeCommand(name, c.RemoteFolder, c.SudoCommand))
	out = strings.ReplaceAll(out, "\r", "") // of a terminal
	_, answer, begun := strings.Cut(out, beginMark+name+"\n")
	answer, _, ended := strings.Cut(answer, overMark+name)
	switch {
	case err != nil && !begun && ctx.Err() != nil:
		return nil, fmt.Errorf("%w; %s", err, notBegun(c.private(said+"\n"+out)))
	case err != nil:
		return nil, err
	case out == "" && said == "" && end.status == 0:
		return nil, errors.New(`the communicator answered success without running anything, as communicator = "none" ` +
			`does, or a start-up file of the shell that calls exit; this provisioner needs a communicator that runs ` +
			`commands, such as communicator = "ssh"`)
	case !begun:
		return nil, notRun(end, c.private(said+"\n"+out))
	case !ended:
		return nil, fmt.Errorf("the machine's answer was cut short (%s): %w%s", end, errLost,
			after(lastWords(c.private(said))))
	}
	m := parseProbe(answer)
	if err := m.demand(c); err != nil {
		return nil, err
	}
	return m, nil
}

// notRun is the error of a machine that ended a session before its shell ran the
// command. said is what the machine printed.
func notRun(end ending, said string) error {
	if said = lastWords(said); said == "" {
		said = "nothing"
	}
	err := fmt.Errorf("the machine ended the session without running the command (%s) and printed: %s; most often "+
		"the cause is exit in a start-up file of the shell, such as ~/.bashrc, a ForceCommand in sshd_config(5), or "+
		"a login shell such as /bin/false or nologin", end, said)
	if end.lost() {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return err
}

// notBegun says why a command does not begin. said is what the machine printed.
func notBegun(said string) string {
	why := "the machine's shell has not begun to run the command: a start-up file of the shell, such as ~/.bashrc, " +
		"does not end or reads standard input, or nothing reaches the machine any more"
	if said = lastWords(said); said != "" {
		why += "; the machine printed: " + said
	}
	return why
}

// ownCommand matches a command of this package in the output of a shell or a
// ForceCommand.
var ownCommand = regexp.MustCompile(`sh -c [\\'"]{1,8}LC_ALL=C; export LC_ALL;[^\n]*`)

// plainOption matches an argument that is no secret.
var plainOption = regexp.MustCompile(`^(-[A-Za-z]|--|--[a-z-]+|root)$`)

// private returns text without the arguments of sudo_command, which may have a
// password, and without the commands of this package.
func (c Config) private(text string) string {
	text = ownCommand.ReplaceAllString(text, "(the command)")
	_, arguments, _ := strings.Cut(c.SudoCommand, " ")
	for word := range strings.FieldsSeq(arguments) {
		_, value, _ := strings.Cut(word, "=")
		for _, secret := range []string{word, value} {
			if len(secret) > 2 && !plainOption.MatchString(secret) {
				text = strings.ReplaceAll(text, secret, "…")
			}
		}
	}
	return text
}

// parseProbe reads the probe's lines.
func parseProbe(answer string) *machine {
	said := ""
	facts, release, _ := strings.Cut(answer, "\nos-release\n")
	if before, rest, ok := strings.Cut(facts, "\n"+sudoSays+"\n"); ok {
		said, rest, _ = strings.Cut(rest, "\n"+sudoSaid)
		facts = before + "\n" + rest
	}
	m := &machine{facts: pairs(facts, " "), osRelease: pairs(release, `"'`)}
	m.arch = arches[m.facts["arch"]]
	m.sudoSaid, m.reaches = strings.CutSuffix(strings.TrimSpace(said), "root=yes")
	for _, tool := range tools {
		if strings.Contains(facts+"\n", "\nmissing="+tool+"\n") {
			m.missing = append(m.missing, tool)
		}
	}
	return m
}

// pairs are lines of the form NAME=VALUE, without characters around the values.
func pairs(text, around string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			all[name] = strings.Trim(value, around)
		}
	}
	return all
}

// demand fails when something that the agent needs is missing.
func (m *machine) demand(c Config) error {
	uname, elf, folder := m.facts["arch"], m.facts["elf"], m.facts["folder"]
	user, home := m.facts["user"], m.facts["home"]
	switch {
	case len(m.osRelease) == 0:
		return errors.New("the machine has no /etc/os-release (or it is empty), which every distribution has; " +
			"is this the machine to make an image of?")
	case m.arch == "":
		return fmt.Errorf("the machine's architecture is %q; supported are x86_64 (amd64) and aarch64 (arm64)", uname)
	case m.facts["tty"] != "":
		return errors.New("the communicator gives commands a terminal, which would garble the agent; remove " +
			"ssh_pty = true")
	case len(m.missing) > 0:
		return fmt.Errorf("the machine lacks %s; install them before this provisioner, they are in the packages "+
			"coreutils and gzip", strings.Join(m.missing, ", "))
	case elf != "" && elf != elfMachines[m.arch]:
		return fmt.Errorf("uname -m on the machine says %s, but its /bin/sh is a program for another architecture "+
			"(ELF machine %q, not %q): the agent for linux/%s would not run there", uname, elf, elfMachines[m.arch],
			m.arch)
	case !m.reaches:
		said := lastWords(c.private(m.sudoSaid))
		return fmt.Errorf("the user %s (uid %s) is not root and `%s env true` failed%s; %s, connect as root, or set "+
			"sudo_command", user, m.facts["uid"], c.private(c.SudoCommand), after(said), m.allowing(said))
	case folder == "":
		return fmt.Errorf("the folder %s does not exist on the machine; set remote_folder to one that does, such as %s",
			c.RemoteFolder, home)
	case !plainPath.MatchString(folder):
		return fmt.Errorf("the folder %s on the machine is a link to %q, whose name has other characters than "+
			"letters, digits, '.', '_', '-' and '/'; set remote_folder to another folder, such as %s",
			c.RemoteFolder, folder, home)
	case m.facts["writable"] == "":
		return fmt.Errorf("the folder %s on the machine is not writable for the user %s (or lies on a read-only file "+
			"system); set remote_folder to one that is, such as %s", c.RemoteFolder, user, home)
	}
	return nil
}

// name is the name of the machine's distribution for people.
func (m *machine) name() string {
	name := m.osRelease["PRETTY_NAME"]
	if name == "" {
		name = strings.TrimSpace(m.osRelease["ID"] + " " + m.osRelease["VERSION_ID"])
	}
	return name
}
