package machine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Hopeless is an error that ends the waiting.
type Hopeless struct{ Err error }

// Error implements error.
func (h Hopeless) Error() string { return h.Err.Error() }

// Poll checks a condition until it holds, returns Hopeless, or ctx ends. The
// error contains the condition's last error.
func Poll(ctx context.Context, condition func() error) error {
	return PollEvery(ctx, 100*time.Millisecond, condition)
}

// PollEvery is Poll with another interval, for expensive conditions.
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
			missing = err // later errors only say that the time is over
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), missing)
		case <-ticker.C:
		}
	}
}
