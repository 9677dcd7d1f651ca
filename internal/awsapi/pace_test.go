package awsapi

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"
)

func TestThrottlingSlowsAllCallsDown(t *testing.T) {
	p, now := newPacer(retry.NewStandard()), time.Unix(1e9, 0)
	for _, code := range []string{"RequestThrottledException", "ThrottlingException", "ConcurrentLimitExceededException", "ServiceQuotaExceededException"} {
		before := p.limit.Limit()
		now = now.Add(time.Second)
		for range 32 { // calls at the same time
			p.ended(&smithy.GenericAPIError{Code: code}, now)
		}
		require.InEpsilon(t, 0.7*float64(before), float64(p.limit.Limit()), 1e-9, code)
	}
	slow := p.limit.Limit()
	p.ended(&smithy.GenericAPIError{Code: "InternalServerException"}, now)
	p.ended(errors.New("connection reset"), now)
	require.Equal(t, slow, p.limit.Limit())
	for range int(slow) { // a second
		p.ended(nil, now)
	}
	require.InDelta(t, float64(slow)+speedUp, float64(p.limit.Limit()), 1)
	for range 1_000_000 {
		p.ended(nil, now)
	}
	require.EqualValues(t, mostCalls, p.limit.Limit())
	for range 100 {
		now = now.Add(time.Second)
		p.ended(&smithy.GenericAPIError{Code: "RequestThrottledException"}, now)
	}
	require.EqualValues(t, leastCalls, p.limit.Limit())
}
