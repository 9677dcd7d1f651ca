package host

import (
	"context"
	"fmt"
	"time"
)

// putBackLimit bounds a command that restores something.
const putBackLimit = 2 * time.Minute

// PutBack runs a command that restores what was changed for a while, such as a
// stopped service, also when ctx has ended.
func (h *Host) PutBack(ctx context.Context, c Command) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackLimit)
	defer cancel()
	if _, err := h.Run(ctx, c); err != nil {
		return fmt.Errorf("restoring what was changed for a while: %w", err)
	}
	return nil
}
