package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// seedFolder is where cloud-init's NoCloud data source looks for a seed on disk.
const seedFolder = "/var/lib/cloud/seed/nocloud"

// seed is what an instance is told about itself, in the form of cloud-init's
// NoCloud data source
// (https://cloudinit.readthedocs.io/en/22.4.2/topics/datasources/nocloud.html).
// It is handed over from outside, as a hypervisor does: nothing of it is on the
// machine's disk unless the machine writes it there.
type seed struct {
	instanceID string
	hostname   string
	keys       []string
	userData   []byte
}

// files renders the seed by file name. JSON is YAML.
func (s seed) files() (map[string][]byte, error) {
	meta, err := json.MarshalIndent(map[string]any{
		"instance-id":    s.instanceID,
		"local-hostname": s.hostname,
		"public-keys":    s.keys,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("rendering the instance data: %w", err)
	}
	user := s.userData
	if len(user) == 0 {
		user = []byte("#cloud-config\n{}\n")
	}
	return map[string][]byte{"meta-data": append(meta, '\n'), "user-data": user}, nil
}

// write lays the seed down as a folder.
func (s seed) write(folder string) error {
	files, err := s.files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("writing the instance data: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return fmt.Errorf("writing the instance data: %w", err)
		}
	}
	return nil
}
