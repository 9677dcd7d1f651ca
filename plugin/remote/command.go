package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rules"
)

// The lines that the remote commands print before and after their output, each
// with the random name of the session at the end. A banner or a start-up file of
// the shell may print around these lines, and may leave its own last line open.
const (
	beginMark = "eksnode-begin-"
	// keptMark, before beginMark, says that the machine has the agent already.
	keptMark = "eksnode-kept-"
	// overMark shows the end of a command whose standard input is still open,
	// before the next heartbeat.
	overMark = "eksnode-over-"
)

// printMark is the shell command that prints a mark on a line of its own.
func printMark(mark, name string) string { return "echo; echo " + mark + name }

// The exit codes of a session that fails before the agent runs, which reasons.yaml names.
// The agent itself uses 0, 1 and 2; shells use 126 and above.
const (
	exitFolder = 71
	exitUnpack = 72
	exitChmod  = 73
	exitMount  = 74
)

// tools are the programs that the remote commands need in addition to the shell.
var tools = []string{"chmod", "dd", "gzip", "mkdir", "od", "rm", "uname"}

// sh makes one command of lines for /bin/sh, whatever the user's login shell
// is. The lines must not hold a single quote, '$', '`', '\' or '!': with the
// amazon-chroot communicator they pass through double quotes in a shell on the
// Packer host, which would expand them there.
func sh(lines ...string) string {
	return "sh -c 'LC_ALL=C; export LC_ALL; " + strings.Join(lines, "; ") + "'"
}

// probeCommand is the shell command of the probe. It changes nothing.
func probeCommand(name, folder, sudo string) string {
	program, _, _ := strings.Cut(sudo, " ")
	lines := []string{
		printMark(beginMark, name),
		"printf arch=; uname -m",
		// The architecture of the shell itself. A program for another architecture
		// must not be started: where the kernel refuses the program, sudo and most
		// shells run its bytes as a script.
		"printf elf=; od -An -tx1 -j18 -N2 /bin/sh || echo",
		"printf uid=; id -u",
		"printf user=; id -un",
		"printf home=; pwd",
		"test -t 0 && echo tty=yes",
		// Without links: the agent compares this path with its own.
		"printf folder=; cd " + folder + " && pwd -P || echo",
		"test -w . && echo writable=yes",
		"test -d " + path.Dir(rules.KeptAgent) + " && echo kept=yes",
		"command -v " + program + " >/dev/null || echo sudo=missing",
		// Not for root: sudo would write to the machine's log. env runs another
		// program, as the agent will.
		"echo " + sudoSays,
		"{ id -u | grep -qx 0 || " + sudo + " env true 2>&1; } && echo && echo root=yes",
		"echo",
		"echo " + sudoSaid,
	}
	for _, tool := range tools {
		lines = append(lines, "command -v "+tool+" >/dev/null || echo missing="+tool)
	}
	return sh(append(lines,
		"echo os-release",
		"cat /etc/os-release || cat /usr/lib/os-release",
		printMark(overMark, name),
	)...)
}

// The lines around what the sudo command prints in the probe.
const sudoSays, sudoSaid = "sudo-says", "sudo-said"

// agentCommand unpacks the first size bytes of its standard input as the agent,
// and runs the agent on the rest. A trap removes the folder when the shell ends.
// The exit status is the agent's. With a SHA-256, it first tries a copy of the agent that
// the machine has kept.
func agentCommand(name, folder string, size int, sha256, sudo string) string {
	file := folder + "/eksnode"
	over := printMark(overMark, name)
	begin := printMark(beginMark, name)
	create := "mkdir " + folder + ` && trap "rm -rf ` + folder + `; ` + over + `" EXIT`
	// dd reads exactly this many bytes, the most of them while gzip unpacks. head -c of
	// busybox and uutils reads ahead and would consume the request.
	const piece = 128 << 10
	pieces := (size - 1) / piece
	get := fmt.Sprintf("%s; %s || exit %d; { dd bs=%d count=%d iflag=fullblock status=none; "+
		"dd bs=%d count=1 iflag=fullblock status=none; } | gzip -dc > %s || exit %d",
		begin, create, exitFolder, piece, pieces, size-pieces*piece, file, exitUnpack)
	if sha256 != "" {
		get = fmt.Sprintf(`if %s && %s > %s && echo "%s  %s" | sha256sum -c > /dev/null; `+
			`then %s; %s; else rm -rf %s; %s; fi`,
			create, strings.TrimSpace(sudo+" cat "+rules.KeptAgent), file, sha256, file,
			printMark(keptMark, name), begin, folder, get)
	}
	return sh(
		`trap "`+over+`" EXIT`,
		"umask 077",
		get,
		fmt.Sprintf("chmod 700 %s || exit %d", file, exitChmod),
		fmt.Sprintf("test -x %s || exit %d", file, exitMount), // false on a noexec mount
		"umask 022", // sudo keeps the umask, and packages would be installed with it
		"cd /",
		strings.TrimSpace(sudo+" "+file+" agent"),
	)
}

// cleanCommand removes the agent's folder where the shell of agentCommand could not.
func cleanCommand(folder string) string { return sh("rm -rf " + folder) }

type ending struct {
	status int
	err    error // it could not be started
	silent error // why nothing more is expected of a command that has not ended
}

func (e ending) String() string {
	if e.lost() {
		return "no exit status"
	}
	return fmt.Sprintf("exit status %d", e.status)
}

// lost reports whether the exit status was not received: the SSH communicator saw
// the connection end, or Packer's own connection to the communicator ended (123).
func (e ending) lost() bool {
	return e.status == packersdk.CmdDisconnect || e.status == 123
}

// start runs line on the machine. The channel receives its end, once. Some
// communicators ignore the context in Start or in the wait for the end, so both run
// in a goroutine, and the caller may stop waiting.
func start(ctx context.Context, comm packersdk.Communicator, line string, stdin io.Reader,
	stdout, stderr io.Writer) <-chan ending {
	over := make(chan ending, 1)
	go func() {
		cmd := &packersdk.RemoteCmd{Command: line, Stdin: stdin, Stdout: stdout, Stderr: stderr}
		if err := comm.Start(ctx, cmd); err != nil {
			over <- ending{err: err}
			return
		}
		over <- ending{status: cmd.Wait()}
	}()
	return over
}

// output runs line on the machine until the command or ctx ends, and returns what
// the command has printed.
func output(ctx context.Context, comm packersdk.Communicator, line string) (
	stdout, stderr string, end ending, err error) {
	var out, errs text
	select {
	case end = <-start(ctx, comm, line, nil, &out, &errs):
		if err = end.err; err != nil {
			err = fmt.Errorf("starting a command on the machine: %w", err)
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return out.String(), errs.String(), end, err
}

// text is a buffer that may be read while a command still writes to it. It keeps
// at least the last textKept bytes, and at most twice as many.
type text struct {
	mu   sync.Mutex
	data []byte
}

const textKept = 256 << 10

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if over := len(t.data) - textKept; over > textKept {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}

// lastWords is the end of a command's output, on one line.
func lastWords(s string) string {
	const most = 600
	isEnd := func(r rune) bool { return r == '\n' || r == '\r' }
	s = show.Line(strings.Join(strings.FieldsFunc(strings.TrimSpace(s), isEnd), "; "))
	if len(s) > most {
		s = "… " + s[len(s)-most:]
	}
	return s
}

// Config holds the fields that the provisioners of this plugin share.
type Config struct {
	// Print the plan and change nothing on the machine. Defaults to `false`.
	DryRun bool `mapstructure:"dry_run"`
	// Print every step, rule and action, also those that change nothing. Packer's
	// `-debug` and the variable `PACKER_LOG` do the same. Defaults to `false`.
	Verbose bool `mapstructure:"verbose"`
	// Path of the JSON report on the Packer host. Missing folders are created. A name
	// with `.html` gets a page for a browser instead, and one with `.md` a summary.
	// Before the run, a report with the result `unfinished` replaces an earlier
	// report; an interrupted run leaves this result. A failed run also writes its
	// report. Each provisioner of each build needs its own path, such as
	// `reports/scrub-${source.name}.json`; a path in use is refused. Without this
	// field, no report is written.
	Report string `mapstructure:"report"`
	// Folder on the machine for the agent. The agent runs from a new folder in
	// `remote_folder` and removes the new folder first. `remote_folder` must
	// exist, be writable for Packer's user, and not be mounted `noexec`. Defaults
	// to `/tmp`.
	RemoteFolder string `mapstructure:"remote_folder"`
	// Command prefix that runs a command as root without a password. Not used when
	// Packer connects as root. Defaults to `sudo -n --`.
	SudoCommand string `mapstructure:"sudo_command"`
}

// The defaults.
const (
	defaultRemoteFolder = "/tmp"
	defaultSudoCommand  = "sudo -n --"
)

// Both become part of a shell's command line. With the docker and chroot
// communicators, one or two more shells read the line. So only characters that
// every shell leaves unchanged are allowed.
var (
	plainPath  = regexp.MustCompile(`^/[A-Za-z0-9._/-]*$`)
	plainWords = regexp.MustCompile(`^[A-Za-z0-9_./=:@%+,-]+( [A-Za-z0-9_./=:@%+,-]+)*$`)
)

// Prepare sets the defaults and validates the fields. Each error names its field
// and the allowed values.
func (c *Config) Prepare() error {
	c.RemoteFolder = cmp.Or(c.RemoteFolder, defaultRemoteFolder)
	if c.SudoCommand == "" {
		c.SudoCommand = defaultSudoCommand
	}
	var errs []error
	if !validate.IsUnknown(c.RemoteFolder) {
		errs = append(errs, c.checkRemoteFolder())
	}
	if !validate.IsUnknown(c.SudoCommand) {
		errs = append(errs, c.checkSudoCommand())
	}
	return errors.Join(append(errs, validate.Home("report", &c.Report), c.checkReport())...)
}

func (c *Config) checkRemoteFolder() error {
	if !plainPath.MatchString(c.RemoteFolder) || path.Clean(c.RemoteFolder) != c.RemoteFolder {
		return fmt.Errorf("remote_folder: %q is not a clean absolute path of letters, digits, '.', '_', '-' and '/', "+
			"such as /var/tmp", c.RemoteFolder)
	}
	return nil
}

func (c *Config) checkSudoCommand() error {
	if !plainWords.MatchString(c.SudoCommand) { // may hold a password
		return fmt.Errorf("sudo_command: the value is not a program with plain arguments, such as %q; quotes, "+
			"variables, shell operators and two spaces in a row are not allowed", defaultSudoCommand)
	}
	return nil
}

// checkReport checks that the nearest existing folder above the report is
// writable. The run creates the missing folders.
func (c *Config) checkReport() error {
	if c.Report == "" || validate.IsUnknown(c.Report) {
		return nil
	}
	switch st, err := os.Stat(c.Report); {
	case err == nil && st.IsDir():
		return fmt.Errorf("report: %s is a folder; name a file in it, such as %s", c.Report,
			filepath.Join(c.Report, "report.json"))
	case err == nil && !st.Mode().IsRegular():
		return fmt.Errorf("report: %s is not a regular file, which a report would replace", c.Report)
	}
	for folder := filepath.Dir(c.Report); ; folder = filepath.Dir(folder) {
		st, err := os.Stat(folder)
		switch {
		case err == nil && st.IsDir():
			if err := writable(folder); err != nil {
				return fmt.Errorf("report: %s cannot be written: the folder %s: %w", c.Report, folder, err)
			}
			return nil
		case err == nil:
			return fmt.Errorf("report: %s is not a folder, so %s cannot be written", folder, c.Report)
		case folder == filepath.Dir(folder):
			return fmt.Errorf("report: looking for the folder of %s: %w", c.Report, err)
		}
	}
}
