// Package service records the files with which each service was last started, so
// that first boot restarts a service only after its files changed. The record lies
// in /run, because no service runs after a reboot.
package service

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Folder holds the records.
const Folder = "/run/eksnode/applied"

// Digest collects the files that a service reads.
type Digest struct{ text []byte }

// Add adds a file's name and content.
func (d *Digest) Add(name string, content []byte) {
	d.text = fmt.Appendf(d.text, "%s %d %s\n", name, len(content), content)
}

// Sum returns the digest in hexadecimal, or an empty text without files. An empty text
// equals the missing record of a service that was never started.
func (d *Digest) Sum() string {
	if len(d.text) == 0 {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(d.text))
}

// IsStartedWith reports whether subject, a service's name, was last started with
// this sum.
func IsStartedWith(h *host.Host, subject, sum string) (bool, error) {
	have, err := h.Content(path.Join(Folder, subject))
	if err != nil {
		return false, fmt.Errorf("reading the record of the last start of %s: %w", subject, err)
	}
	return string(have) == sum, nil
}

// RecordStart records that subject was started with this sum.
func RecordStart(h *host.Host, subject, sum string) error {
	if err := h.Files.WriteFile(path.Join(Folder, subject), []byte(sum), host.Attributes{Mode: 0o600}); err != nil {
		return fmt.Errorf("recording the start of %s: %w", subject, err)
	}
	return nil
}

// Recorded is an action after whose success the start of subject is recorded.
func Recorded(h *host.Host, a plan.Action, subject, sum string) plan.Action {
	do := a.Do
	a.Do = func(ctx context.Context, p plan.Progress) error {
		if err := do(ctx, p); err != nil {
			return err
		}
		return RecordStart(h, subject, sum)
	}
	return a
}
