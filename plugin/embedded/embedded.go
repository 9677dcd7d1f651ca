// Package embedded is the agents that the plugin carries: the same program as
// the command `eksnode`, one per architecture a node may have, compressed.
package embedded

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

//go:embed agents
var folder embed.FS

// Agent is the gzip-compressed agent for Linux on arch, in Go's spelling. That
// the plugin was built without it is an error that says how to build one with
// it.
func Agent(arch string) ([]byte, error) { return agentIn(folder, arch) }

func agentIn(files fs.FS, arch string) ([]byte, error) {
	data, err := fs.ReadFile(files, "agents/eksnode-linux-"+arch+".gz")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this plugin was built without its agent for linux/%s; build it with `make build`", arch)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the agent for linux/%s: %w", arch, err)
	}
	return data, nil
}
