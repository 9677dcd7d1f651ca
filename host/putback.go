package host

import (
	"context"
	"fmt"
	"time"
)

// putBackLimit bounds the time of a restoring command.
const putBackLimit = 2 * time.Minute

// PutBack runs a command that restores a temporary change, such as a stopped
// service. It runs also when ctx has ended.
func (h *Host) PutBack(ctx context.Context, c Command) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackLimit)
	defer cancel()
	if _, err := h.Run(ctx, c); err != nil {
		return fmt.Errorf("restoring a temporary change: %w", err)
	}
	return nil
}
