package machine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Hopeless is an error that no waiting helps against.
type Hopeless struct{ Err error }

// Error implements error.
func (h Hopeless) Error() string { return h.Err.Error() }

// Poll looks at a condition until it holds, is hopeless, or ctx ends. The error
// then says what was still missing.
func Poll(ctx context.Context, condition func() error) error {
	return PollEvery(ctx, 100*time.Millisecond, condition)
}

// PollEvery is Poll for a condition that takes some work to look at.
func PollEvery(ctx context.Context, interval time.Duration, condition func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var missing error
	for {
		err := condition()
		var end Hopeless
		switch {
		case err == nil:
			return nil
		case errors.As(err, &end):
			return end.Err
		case ctx.Err() == nil || missing == nil:
			missing = err // later ones only say that the time is over
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), missing)
		case <-ticker.C:
		}
	}
}
