// Package service starts the node's services exactly when something that they
// read has changed. What a running service was last started with is recorded in
// /run: after a reboot nothing runs, and nothing is remembered.
package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
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

// IsStartedWith says whether subject, a service's name, was last started with
// this sum.
func IsStartedWith(h *host.Host, subject, sum string) (bool, error) {
	have, err := h.Content(path.Join(Folder, subject))
	if err != nil {
		return false, fmt.Errorf("reading what %s was started with: %w", subject, err)
	}
	return string(have) == sum, nil
}

// RecordStart records that subject was started with this sum.
func RecordStart(h *host.Host, subject, sum string) error {
	if err := h.Files.WriteFile(path.Join(Folder, subject), []byte(sum), host.Attributes{Mode: 0o600}); err != nil {
		return fmt.Errorf("recording what %s was started with: %w", subject, err)
	}
	return nil
}

// Systemctl is the action that calls systemctl with these arguments.
func Systemctl(h *host.Host, why string, args ...string) plan.Action {
	c := host.Command{Argv: append([]string{"systemctl"}, args...)}
	return plan.Action{Verb: plan.Run, Target: c.String(), Reason: why, Do: func(ctx context.Context, _ plan.Progress) error {
		_, err := h.Run(ctx, c)
		return err
	}}
}
