package remote

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// writeReport keeps the report at path, whole or not at all, and makes the
// folders above it.
func writeReport(path string, r *plan.Report) (err error) {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	file, err := os.CreateTemp(folder, ".eksnode-report-*")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name()) // the error that is returned says more
			err = fmt.Errorf("writing the report %s: %w", path, err)
		}
	}()
	_, err = file.Write(append(data, '\n'))
	if err == nil {
		err = file.Chmod(0o644) // for whoever reads the build's artifacts
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
