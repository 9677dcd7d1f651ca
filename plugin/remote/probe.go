package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
)

// errLost means that the end of a command was not received.
var errLost = errors.New("the connection to the machine was lost")

// machine is what the probe found out about the builder machine.
type machine struct {
	arch      string // in Go's spelling
	elf       string // e_machine of /bin/sh, two bytes in hexadecimal
	user      string
	uid       string
	home      string
	isRoot    bool
	reaches   bool // root, by itself or with the sudo command
	tty       bool
	missing   []string // tools
	folder    string   // the remote folder without symbolic links; "" when missing
	writable  bool
	osRelease map[string]string
	said      string // on standard error
}

// arches maps the kernel's names (uname -m) to Go's.
var arches = map[string]string{"x86_64": "amd64", "aarch64": "arm64"}

// elfMachines are e_machine in the little-endian ELF files of an architecture;
// see elf(5).
var elfMachines = map[string]string{"amd64": "3e 00", "arm64": "b7 00"}

// probe finds out what the machine is, and fails when the agent cannot run there.
// It also detects a communicator that reports success without running anything.
func probe(ctx context.Context, comm packersdk.Communicator, c Config) (*machine, error) {
	out, said, status, err := output(ctx, comm, probeCommand(c.RemoteFolder, c.SudoCommand))
	if err != nil {
		return nil, err
	}
	out = strings.ReplaceAll(out, "\r", "") // of a terminal
	_, answer, begun := strings.Cut(out, probeBegin+"\n")
	answer, _, ended := strings.Cut(answer, probeEnd)
	switch {
	case out == "" && said == "" && status == 0:
		return nil, errors.New(`the communicator answered success without running anything, as communicator = "none" does; this provisioner needs one that runs commands, such as communicator = "ssh"`)
	case !begun && status != 0:
		return nil, fmt.Errorf("the machine's shell exited with status %d: %s", status, lastWords(said+"\n"+out))
	case !begun || !ended:
		return nil, fmt.Errorf("the machine's answer was cut short (exit status %d): %w", status, errLost)
	}
	m, uname := parseProbe(answer)
	m.said = said
	if err := m.demand(c, uname); err != nil {
		return nil, err
	}
	return m, nil
}

// parseProbe reads the probe's lines; uname is the architecture as the kernel
// names it.
func parseProbe(answer string) (m *machine, uname string) {
	m = &machine{osRelease: map[string]string{}}
	facts, release, _ := strings.Cut(answer, "\nos-release\n")
	for line := range strings.Lines(facts) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "arch":
			uname, m.arch = value, arches[value]
		case "elf":
			m.elf = strings.TrimSpace(value)
		case "uid":
			m.uid, m.isRoot = value, value == "0"
		case "user":
			m.user = value
		case "home":
			m.home = value
		case "tty":
			m.tty = true
		case "root":
			m.reaches = true
		case "folder":
			m.folder = value
		case "writable":
			m.writable = true
		case "missing":
			if slices.Contains(tools, value) && !slices.Contains(m.missing, value) {
				m.missing = append(m.missing, value)
			}
		}
	}
	for line := range strings.Lines(release) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			m.osRelease[key] = strings.Trim(value, `"'`)
		}
	}
	return m, uname
}

// demand fails when something that the agent needs is missing.
func (m *machine) demand(c Config, uname string) error {
	if len(m.osRelease) == 0 {
		return errors.New("the machine has no /etc/os-release (or it is empty), which every distribution has; is this the machine to make an image of?")
	}
	if m.arch == "" {
		return fmt.Errorf("the machine's architecture is %q; supported are x86_64 (amd64) and aarch64 (arm64)", uname)
	}
	if m.tty {
		return errors.New("the communicator gives commands a terminal, which would garble the agent; remove ssh_pty = true")
	}
	if len(m.missing) > 0 {
		return fmt.Errorf("the machine lacks %s; install them before this provisioner, they are in the packages coreutils and gzip", strings.Join(m.missing, ", "))
	}
	if m.elf != "" && m.elf != elfMachines[m.arch] {
		return fmt.Errorf("uname -m on the machine says %s, but its /bin/sh is a program for another architecture (ELF machine %q, not %q): the agent for linux/%s would not run there", uname, m.elf, elfMachines[m.arch], m.arch)
	}
	if !m.reaches {
		return fmt.Errorf("the user %s (uid %s) is not root and `%s true` failed: %s; %s, connect as root, or set sudo_command", m.user, m.uid, c.SudoCommand, lastWords(m.said), allowing(m.user, m.said))
	}
	switch {
	case m.folder == "":
		return fmt.Errorf("the folder %s does not exist on the machine; set remote_folder to one that does, such as %s", c.RemoteFolder, m.home)
	case !plainPath.MatchString(m.folder):
		return fmt.Errorf("the folder %s on the machine is a link to %q, whose name has other characters than letters, digits, '.', '_', '-' and '/'; set remote_folder to another folder, such as %s", c.RemoteFolder, m.folder, m.home)
	case !m.writable:
		return fmt.Errorf("the folder %s on the machine is not writable for the user %s (or lies on a read-only file system); set remote_folder to one that is, such as %s", c.RemoteFolder, m.user, m.home)
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
