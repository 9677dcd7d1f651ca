// Package applied remembers what a running service was last started with, so
// that a service starts again exactly when something it reads has changed: not
// when nothing has, and not never because the files were there already. The
// record lies in /run: after a reboot nothing runs, and nothing is remembered.
package applied

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Folder is where the record lies.
const Folder = "/run/eksnode/applied"

// Digest adds up what something reads.
type Digest struct{ parts []string }

// Add adds one named part.
func (d *Digest) Add(name string, content []byte) {
	d.parts = append(d.parts, fmt.Sprintf("%s %d %s\n", name, len(content), content))
}

// IsEmpty says whether nothing was added.
func (d *Digest) IsEmpty() bool { return len(d.parts) == 0 }

// Sum is the digest in hexadecimal.
func (d *Digest) Sum() string {
	h := sha256.New()
	for _, p := range d.parts {
		h.Write([]byte(p)) // never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Is says whether subject, a service's name, was last started with this sum.
func Is(h *host.Host, subject, sum string) (bool, error) {
	have, err := h.Content(path.Join(Folder, subject))
	if err != nil {
		return false, fmt.Errorf("reading what %s was started with: %w", subject, err)
	}
	return string(have) == sum, nil
}

// Save records that subject was started with this sum.
func Save(h *host.Host, subject, sum string) error {
	if err := h.Files.WriteFile(path.Join(Folder, subject), []byte(sum), host.Attributes{Mode: 0o600}); err != nil {
		return fmt.Errorf("recording what %s was started with: %w", subject, err)
	}
	return nil
}
