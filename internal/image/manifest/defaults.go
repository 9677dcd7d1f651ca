package manifest

import (
	"encoding/json"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// DefaultsPath is the file with the settings that an image has for its nodes.
const DefaultsPath = "/etc/eks/eksnode/defaults.json"

// Defaults are an image's settings for its nodes. First boot merges them under the user
// data.
type Defaults struct {
	// Spec is the spec of a NodeConfig.
	Spec json.RawMessage `json:"spec,omitempty"`
	// MaxConcurrentDownloads and KeepUnpackedLayers are settings of containerd, whose
	// places depend on its version.
	MaxConcurrentDownloads int  `json:"maxConcurrentDownloads,omitempty"`
	KeepUnpackedLayers     bool `json:"keepUnpackedLayers,omitempty"`
}

// LoadDefaults reads the settings of an image, which are empty without the file.
func LoadDefaults(h *host.Host) (Defaults, error) {
	var d Defaults
	text, err := h.Content(DefaultsPath)
	if err == nil && text != nil {
		err = strictjson.Read(text, &d)
	}
	if err != nil {
		return d, fmt.Errorf("reading the image's settings %s: %w", DefaultsPath, err)
	}
	return d, nil
}
