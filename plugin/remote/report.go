package remote

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Kept is the file of a provisioner's report. From the first run on, the file
// belongs to the provisioner's process. Packer has one process for each
// provisioner of each build, so two provisioners never share a file. The zero value
// has no file yet.
type Kept struct {
	file *plan.ReportFile
	runs int
}

// begin claims the file at path for a run. A retry claims the provisioner's own
// file again.
func (k *Kept) begin(path string, begun plan.Report) error {
	if k.file != nil {
		if err := k.file.Close(); err != nil {
			return fmt.Errorf("report: %w", err)
		}
		k.file = nil
	}
	file, err := plan.ClaimReport(path, begun)
	var used *plan.InUseError
	switch {
	case errors.As(err, &used):
		return fmt.Errorf(`report: %w; give each provisioner and each build a file of its own, such as %s`, err, perSource(path))
	case err != nil:
		return fmt.Errorf("report: %w; nothing was done on the machine", err)
	}
	k.file = file
	return nil
}

// write writes the report of a run that has ended.
func (k *Kept) write(r plan.Report) error {
	if err := k.file.Write(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// perSource adds the name of the source to a path.
func perSource(path string) string {
	extension := filepath.Ext(path)
	return strings.TrimSuffix(path, extension) + "-${source.name}" + extension
}
