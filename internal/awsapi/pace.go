package awsapi

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"golang.org/x/time/rate"
)

const (
	// mostCalls and leastCalls limit the calls each second. mostCalls is the quota of
	// one snapshot (https://docs.aws.amazon.com/general/latest/gr/ebs-service.html).
	mostCalls  = 1000
	leastCalls = 2
	// slowBy is what a throttling error leaves of the rate, and slowEach is the time
	// until the next one counts: the calls in between were sent at the old rate.
	slowBy   = 0.7
	slowEach = 300 * time.Millisecond
	// speedUp is how much faster the calls become each second, in calls each second.
	speedUp = 20
)

// pacer is a retryer that paces all attempts of a client. Imports that share a quota
// share its rate: a throttling error makes the rate smaller by a part, and success
// makes the rate greater by an amount.
//
// The SDK's adaptive mode does the same, but counts every one of many throttling
// errors at the same time, and falls to one call in two seconds.
type pacer struct {
	aws.RetryerV2
	limit  *rate.Limiter
	mutex  sync.Mutex
	slowed time.Time
}

func newPacer(standard aws.RetryerV2) *pacer {
	return &pacer{RetryerV2: standard, limit: rate.NewLimiter(mostCalls, mostCalls/10)}
}

func (p *pacer) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	if err := p.limit.Wait(ctx); err != nil {
		return nil, err
	}
	return func(err error) error {
		p.ended(err, time.Now())
		return nil
	}, nil
}

// ended changes the rate after an attempt.
func (p *pacer) ended(err error, now time.Time) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch is := p.limit.Limit(); {
	case throttled(err):
		if now.Sub(p.slowed) > slowEach {
			p.slowed = now
			p.limit.SetLimit(max(leastCalls, is*slowBy))
		}
	case err == nil:
		p.limit.SetLimit(min(mostCalls, is+speedUp/is))
	}
}

// throttled says that a service wants fewer calls.
func throttled(err error) bool {
	all := append(retry.IsErrorThrottles{retry.ThrottleErrorCode{Codes: crowded}}, retry.DefaultThrottles...)
	return err != nil && all.IsErrorThrottle(err).Bool()
}
