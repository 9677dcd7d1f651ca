package remote

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Kept is the file of a provisioner's report. It belongs to the provisioner's
// process from the first run on: Packer has one process for each provisioner
// of each build, and ends them together, so that two of them never share a
// file, whichever comes first. The zero value has none yet.
type Kept struct{ file *plan.ReportFile }

// begin claims the file at path for a run. A retry takes the provisioner's own
// file over.
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

// write keeps the report of a run's end.
func (k *Kept) write(r plan.Report) error {
	if err := k.file.Write(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// perSource is a path with the source's name in it.
func perSource(path string) string {
	extension := filepath.Ext(path)
	return strings.TrimSuffix(path, extension) + "-${source.name}" + extension
}
