package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

// bootID changes with every boot, so with every instance too.
const bootID = "/proc/sys/kernel/random/boot_id"

// cached are the facts that the config phase learned, for the run phase of the
// same boot. What the NodeConfig says is not kept: it is always read again.
type cached struct {
	Boot  string         `json:"boot"`
	Wants instance.Wants `json:"wants"`
	Facts instance.Facts `json:"facts"`
}

func (s Surroundings) cachedFacts(ctx context.Context, h *host.Host, name string, aws AWS, want instance.Wants) (instance.Facts, error) {
	if name == "" {
		return s.facts(ctx, aws, want)
	}
	boot, err := h.Content(bootID)
	if err != nil {
		return instance.Facts{}, fmt.Errorf("reading the boot's id: %w", err)
	}
	text, err := h.Content(name)
	if err != nil {
		return instance.Facts{}, fmt.Errorf("reading the cache: %w", err)
	}
	now := cached{Boot: strings.TrimSpace(string(boot)), Wants: want}
	var old cached
	// A cache that cannot be read is as good as none.
	if json.Unmarshal(text, &old) == nil && now.Boot != "" && old.Boot == now.Boot && old.Wants == now.Wants {
		return old.Facts, nil
	}
	if now.Facts, err = s.facts(ctx, aws, want); err != nil {
		return instance.Facts{}, err
	}
	if text, err = json.Marshal(now); err != nil {
		return instance.Facts{}, fmt.Errorf("encoding the cache: %w", err)
	}
	if err := h.Files.WriteFile(name, text, host.Attributes{Mode: 0o600}); err != nil {
		return instance.Facts{}, fmt.Errorf("writing the cache: %w", err)
	}
	return now.Facts, nil
}
