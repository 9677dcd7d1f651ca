package ami

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// checkRoot returns an error at the start of `packer build` if this user cannot audit
// the disk, so that the build does not fail after the machine was built.
func (c *Config) checkRoot() error {
	if os.Geteuid() == 0 || c.Audit == string(scrub.AuditOff) || validate.IsUnknown(c.Audit) || !building() {
		return nil
	}
	return fmt.Errorf(`audit: %w; with audit = "off", the disk is uploaded without an audit`, diskaudit.ErrNeedsRoot)
}

// building says whether Packer runs `packer build`. Packer tells its plugins nothing
// about its subcommand, and `packer validate` needs no root. If the command of the
// parent process cannot be read, the error comes before the upload.
func building() bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", os.Getppid()))
	if err != nil {
		return false
	}
	args := strings.Split(string(line), "\x00")
	first := slices.IndexFunc(args[1:], func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	return first >= 0 && args[1:][first] == "build"
}
