package awsapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/ebs"
	ebstypes "github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"golang.org/x/time/rate"
)

// BlockSize is the size of every block of a snapshot, in bytes.
const BlockSize = 512 << 10

// blockAttempts is the maximum number of attempts for a call about blocks. Thousands
// of calls must all succeed.
const blockAttempts = 12

// The limits of connections for blocks. Many of them use a line at the same time, and a
// block may take minutes on a slow one.
const (
	// blockSilence is how long a call may wait for its response. 32 calls share a line:
	// with 1.1 Mbit/s, each block needs that long.
	blockSilence = 2 * time.Minute
	// blockConnect is the limit for a connection, and also for the TLS handshake.
	blockConnect = 12 * time.Second
	// blockConnections is how many stay open. The SDK closes all but 10 after each call.
	blockConnections = 256
)

// forBlocks changes a client of the SDK for blocks. HTTP/1.1 gives each call a
// connection of its own, so the calls do not share a TCP window.
func forBlocks(b *awshttp.BuildableClient, silence time.Duration) *awshttp.BuildableClient {
	dial := func(d *net.Dialer) { d.Timeout = blockConnect }
	return b.WithReadTimeout(silence).WithDialerOptions(dial).WithTransportOptions(func(t *http.Transport) {
		t.TLSHandshakeTimeout = blockConnect
		t.MaxIdleConns, t.MaxIdleConnsPerHost = blockConnections, blockConnections
		t.Protocols = new(http.Protocols)
		t.Protocols.SetHTTP1(true)
	})
}

// crowded are the services' error codes for too many calls that the SDK does not slow
// down for by itself.
var crowded = map[string]struct{}{"ConcurrentLimitExceededException": {}, "ServiceQuotaExceededException": {}}

// blocks sets the connections and the retries of the EBS direct APIs. A call may fail
// often without a failure of the upload, so there is no limit for the retries of all
// calls together.
func (o Options) blocks(e *ebs.Options) {
	if b, ok := e.HTTPClient.(*awshttp.BuildableClient); ok {
		e.HTTPClient = forBlocks(b, cmp.Or(o.Stall, blockSilence))
	}
	e.Retryer = newPacer(retry.NewStandard(func(s *retry.StandardOptions) {
		s.MaxAttempts = blockAttempts
		s.RateLimiter = ratelimit.None
		if o.Pause > 0 {
			s.MaxBackoff = o.Pause
			s.Backoff = retry.NewExponentialJitterBackoff(o.Pause)
		}
		s.Retryables = append(s.Retryables, retry.RetryableErrorCode{Codes: crowded})
	}))
}

// earlyMost is how long puts into a new snapshot may answer that the snapshot does not
// exist (https://github.com/awslabs/coldsnap/issues/43), and earlyLooks are the puts of one
// block in this time.
const (
	earlyMost  = 2 * time.Minute
	earlyLooks = 60
)

// noKey are the reasons of errors about a KMS key or a grant that does not exist.
var noKey = []ebstypes.ResourceNotFoundExceptionReason{
	ebstypes.ResourceNotFoundExceptionReasonDependencyResourceNotFound,
	ebstypes.ResourceNotFoundExceptionReasonGrantNotFound,
}

// again are the reasons of errors of a put that another attempt mends: a first attempt
// still runs, or was too slow.
var again = []ebstypes.ValidationExceptionReason{
	ebstypes.ValidationExceptionReasonConflictingBlockUpdate, ebstypes.ValidationExceptionReasonWriteRequestTimeout,
}

// unread is EBS's message when a block did not arrive whole. Its code and reason are those
// of a wrong parameter (https://github.com/nanovms/ops/pull/1268).
const unread = "Failed to read block data"

// isUnsent says that EBS complains about the way of a block, and not about the call.
func isUnsent(err error) bool {
	var api *APIError
	return isReason(err, again...) || errors.As(err, &api) && strings.Contains(api.Said, unread)
}

func isReason[R ~string](err error, reasons ...R) bool {
	var api *APIError
	return errors.As(err, &api) && slices.Contains(reasons, R(api.Reason))
}

// PutBlock writes a block with its SHA-256. Started is when the snapshot was started.
func (a *AWS) PutBlock(ctx context.Context, id string, index int32, block []byte, sum [32]byte,
	started time.Time) error {
	in := &ebs.PutSnapshotBlockInput{
		SnapshotId: aws.String(id), BlockIndex: aws.Int32(index), DataLength: aws.Int32(int32(len(block))),
		Checksum: aws.String(encoded(sum)), ChecksumAlgorithm: ebstypes.ChecksumAlgorithmChecksumAlgorithmSha256,
	}
	for attempt := 1; ; attempt++ {
		in.BlockData = bytes.NewReader(block)
		_, err := a.ebs.PutSnapshotBlock(ctx, in)
		err = explain(fmt.Sprintf("writing the block %d of the snapshot %s", index, id), err)
		early := IsNotFound(err) && !isReason(err, noKey...) && time.Since(started) <= earlyMost && attempt < earlyLooks
		if !early && (!isUnsent(err) || attempt >= blockAttempts) {
			return err
		}
		if err := a.Settle(ctx); err != nil {
			return err
		}
	}
}

// Block is a block in a list.
type Block struct {
	Index int32
	// Token reads the block of the listed snapshot, and First that of the first
	// snapshot of a comparison. Either is empty when that snapshot does not have the
	// block.
	Token, First string
}

// fewAttempts limits the attempts for a list. Without a way to EBS, 12 attempts last
// some minutes.
func fewAttempts(e *ebs.Options) { e.Retryer = retry.AddWithMaxAttempts(e.Retryer, 6) }

// Blocks lists the blocks of a snapshot in order. A new list makes the tokens of
// earlier ones invalid.
func (a *AWS) Blocks(ctx context.Context, id string) ([]Block, error) {
	var all []Block
	err := a.BlockPages(ctx, id, 0, func(page []Block) error {
		all = append(all, page...)
		return nil
	})
	return all, err
}

// BlockPages lists the blocks of a snapshot from an index on, in order, and calls a
// function for each page of up to 10,000 blocks. The function may take longer than the
// token of the next page is valid. A new list may make the tokens of earlier ones
// invalid (https://docs.aws.amazon.com/ebs/latest/userguide/ebsapi-elements.html).
func (a *AWS) BlockPages(ctx context.Context, id string, from int32, each func([]Block) error) error {
	in, doing, listed := &ebs.ListSnapshotBlocksInput{SnapshotId: aws.String(id), MaxResults: aws.Int32(10000)},
		"listing the blocks of the snapshot "+id, true
	for {
		in.StartingBlockIndex = nil
		if in.NextToken == nil && from > 0 {
			in.StartingBlockIndex = aws.Int32(from)
		}
		out, err := a.ebs.ListSnapshotBlocks(ctx, in, fewAttempts)
		if err = explain(doing, err); in.NextToken != nil && listed &&
			isReason(err, ebstypes.ValidationExceptionReasonInvalidPageToken) {
			in.NextToken, listed = nil, false // after an hour
			continue
		}
		if err != nil {
			return err
		}
		var page []Block
		for _, b := range out.Blocks {
			one := Block{Index: aws.ToInt32(b.BlockIndex), Token: aws.ToString(b.BlockToken)}
			if b.BlockIndex == nil || one.Index < from || one.Token == "" {
				return fmt.Errorf("%s: the answer has the block %d without a token, or not in order", doing, one.Index)
			}
			page, from = append(page, one), one.Index+1
		}
		if len(page) > 0 { // a page may be empty without being the last
			listed = true
			if err := each(page); err != nil {
				return err
			}
		}
		if aws.ToString(out.NextToken) == "" {
			return nil
		}
		in.NextToken = out.NextToken
	}
}

// IsStaleToken says that the token of a block has expired, or that a newer list has
// replaced it.
func IsStaleToken(err error) bool {
	return isReason(err, ebstypes.ValidationExceptionReasonInvalidBlockToken)
}

// ChangedBlocks lists the blocks that differ between two snapshots of one volume, in
// order. IsUnrelated tells that the snapshots have no common ancestor.
func (a *AWS) ChangedBlocks(ctx context.Context, first, second string) ([]Block, error) {
	pages := ebs.NewListChangedBlocksPaginator(a.ebs, &ebs.ListChangedBlocksInput{
		FirstSnapshotId: &first, SecondSnapshotId: &second, MaxResults: new(int32(10000)),
	})
	doing := "comparing the snapshots " + first + " and " + second
	return collect(each[ebstypes.ChangedBlock](ctx, doing, pages, fewAttempts), func(b ebstypes.ChangedBlock) Block {
		return Block{aws.ToInt32(b.BlockIndex), aws.ToString(b.SecondBlockToken), aws.ToString(b.FirstBlockToken)}
	})
}

// IsUnrelated says that two snapshots have no common ancestor.
func IsUnrelated(err error) bool {
	return isReason(err, ebstypes.ValidationExceptionReasonUnrelatedSnapshots)
}

// IsRefused says that a snapshot does not allow a call of the EBS direct APIs, or does
// not exist.
func IsRefused(err error) bool {
	return hasCode(err, "ValidationException", "ConflictException", "ResourceNotFoundException") && !isUnsent(err)
}

// GetBlock reads a block into a buffer of BlockSize bytes and returns its SHA-256. It
// reads again when the connection breaks or the checksum is wrong.
func (a *AWS) GetBlock(ctx context.Context, id string, index int32, token string, into []byte) ([32]byte, error) {
	doing := fmt.Sprintf("reading the block %d of the snapshot %s", index, id)
	for attempt := 1; ; attempt++ {
		out, err := a.ebs.GetSnapshotBlock(ctx, &ebs.GetSnapshotBlockInput{SnapshotId: aws.String(id),
			BlockIndex: aws.Int32(index), BlockToken: aws.String(token)})
		if err != nil {
			return [32]byte{}, explain(doing, err)
		}
		if size, by := aws.ToInt32(out.DataLength), out.ChecksumAlgorithm; size != BlockSize ||
			by != ebstypes.ChecksumAlgorithmChecksumAlgorithmSha256 {
			_ = out.BlockData.Close() // the block is useless
			return [32]byte{}, fmt.Errorf("%s: the answer has %d bytes with a checksum of the kind %q, but should "+
				"have %d with SHA256", doing, size, by, BlockSize)
		}
		_, err = io.ReadFull(out.BlockData, into[:BlockSize])
		_ = out.BlockData.Close()
		sum := sha256.Sum256(into[:BlockSize])
		switch want := aws.ToString(out.Checksum); {
		case err == nil && want == encoded(sum):
			return sum, nil
		case err == nil:
			err = fmt.Errorf("its SHA-256 is %s, but should be %s", encoded(sum), want)
		}
		if ctx.Err() != nil || attempt == blockAttempts {
			return sum, fmt.Errorf("%s: %w", doing, err)
		}
	}
}

// encoded is a checksum as AWS writes it.
func encoded(sum [32]byte) string { return base64.StdEncoding.EncodeToString(sum[:]) }

const (
	// mostCalls and leastCalls limit the calls each second. mostCalls is below the quota of one
	// snapshot, 1,000 (https://docs.aws.amazon.com/general/latest/gr/ebs-service.html).
	mostCalls  = 900
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
