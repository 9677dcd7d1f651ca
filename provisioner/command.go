package provisioner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const commandMode = 0o755

func (n *node) commandPath() string { return path.Join(n.distro.CommandFolder, "eksnode") }

// command installs the running program on the node: it audits the image and joins
// the node at first boot. It is done when the file there is this program.
func (n *node) command() step {
	return step{"command", func(_ context.Context, h *host.Host) ([]plan.Action, error) {
		actions, err := plan.Leftovers(h, n.commandPath())
		if err != nil {
			return nil, err
		}
		record, err := n.commandRecord()
		if err != nil {
			return nil, err
		}
		same, _, err := record.Is(h)
		if err != nil || same {
			return actions, err
		}
		return append(actions, plan.Action{Verb: plan.Write, Target: record.Path, Reason: "audits the image and lets it join at first boot",
			Do: func(context.Context, plan.Progress) error { return n.copySelf(h) }}), nil
	}}
}

func (n *node) copySelf(h *host.Host) error {
	in, err := os.Open(n.self)
	if err != nil {
		return fmt.Errorf("opening the running program: %w", err)
	}
	defer in.Close()
	return h.Files.Replace(n.commandPath(), host.Attributes{Mode: commandMode}, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

func (n *node) commandRecord() (manifest.File, error) {
	in, err := os.Open(n.self)
	if err != nil {
		return manifest.File{}, fmt.Errorf("opening the running program: %w", err)
	}
	defer in.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, in)
	if err != nil {
		return manifest.File{}, fmt.Errorf("reading the running program: %w", err)
	}
	return manifest.File{Path: n.commandPath(), Mode: commandMode, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}
