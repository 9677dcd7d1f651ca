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

// Config holds the fields that the provisioners of this plugin share.
type Config struct {
	// Print the plan and change nothing on the machine. Defaults to `false`.
	DryRun bool `mapstructure:"dry_run"`
	// Print every step, rule and action, also those that change nothing. Packer's
	// `-debug` and the variable `PACKER_LOG` do the same. Defaults to `false`.
	Verbose bool `mapstructure:"verbose"`
	// Path of the JSON report on the Packer host. Missing folders are created.
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
	if !plainWords.MatchString(c.SudoCommand) { // may hold a password
		return fmt.Errorf("sudo_command: the value is not a program with plain arguments, such as %q; quotes, variables, shell operators and two spaces in a row are not allowed", defaultSudoCommand)
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
