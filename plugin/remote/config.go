package remote

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"

	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
)

// Config are the fields that every provisioner of this plugin has.
type Config struct {
	// Print what is left to do on the machine and change nothing. Defaults to
	// `false`.
	DryRun bool `mapstructure:"dry_run"`
	// Print every step or rule and every action, also where nothing changes.
	// Packer's `-debug` and a value in `PACKER_LOG` do the same. Defaults to
	// `false`.
	Verbose bool `mapstructure:"verbose"`
	// Path on the Packer host where the JSON report is kept. Missing folders
	// are made. An earlier report is replaced before anything happens on the
	// machine, by one with the result `unfinished`, which an interrupted run
	// leaves; the report is also written when the run failed. Each provisioner
	// of each build needs a path of its own, such as
	// `reports/scrub-${source.name}.json`: one that another has taken is
	// refused. Without it no report is kept.
	Report string `mapstructure:"report"`
	// Folder on the machine that may hold programs while they run. The agent
	// is put into a folder of its own below it and removes that before it does
	// anything else. Must exist, be writable for the user that Packer connects
	// as, and not be mounted `noexec`. Defaults to `/tmp`.
	RemoteFolder string `mapstructure:"remote_folder"`
	// Command that runs another command as root without asking for a password.
	// Not used when Packer connects as root. Defaults to `sudo -n --`.
	SudoCommand string `mapstructure:"sudo_command"`
}

// What is used when a field is not set.
const (
	defaultRemoteFolder = "/tmp"
	defaultSudoCommand  = "sudo -n --"
)

// Both become part of a shell's command line, which passes through one or two
// more shells with the docker and chroot communicators: what any shell takes
// as it stands is what is allowed.
var (
	plainPath  = regexp.MustCompile(`^/[A-Za-z0-9._/-]*$`)
	plainWords = regexp.MustCompile(`^[A-Za-z0-9_./=:@%+,-]+( [A-Za-z0-9_./=:@%+,-]+)*$`)
)

// Prepare fills in the defaults and says what is wrong with the fields, each
// error naming the field and what is allowed.
func (c *Config) Prepare() error {
	if c.RemoteFolder == "" {
		c.RemoteFolder = defaultRemoteFolder
	}
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
		return fmt.Errorf("remote_folder: %q is not a clean absolute path of letters, digits, '.', '_', '-' and '/', such as /var/tmp", c.RemoteFolder)
	}
	return nil
}

func (c *Config) checkSudoCommand() error {
	if !plainWords.MatchString(c.SudoCommand) {
		return fmt.Errorf("sudo_command: %q is not a program with plain arguments, such as %q; quotes, variables and shell operators are not allowed", c.SudoCommand, defaultSudoCommand)
	}
	return nil
}

// checkReport looks for the nearest folder above the report that exists, which
// must be writable: the ones in between are made when the run begins.
func (c *Config) checkReport() error {
	if c.Report == "" || validate.IsUnknown(c.Report) {
		return nil
	}
	switch st, err := os.Stat(c.Report); {
	case err == nil && st.IsDir():
		return fmt.Errorf("report: %s is a folder; name a file in it, such as %s", c.Report, filepath.Join(c.Report, "report.json"))
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
