package machine

import (
	"context"
	"time"
)

// step is the time between two looks at a condition.
const step = 100 * time.Millisecond

// poll looks at a condition until it holds, fails, or ctx ends; then the error
// is ctx's.
func poll(ctx context.Context, condition func() (bool, error)) error {
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for {
		if done, err := condition(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
