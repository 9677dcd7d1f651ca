// Package firstboot contains a node's calls to AWS, through the SDK: the instance
// metadata service, EC2, EKS, and a token signed for STS. It supports every setting
// of the SDK: endpoints, proxies, certificates, regions and credentials, in the
// environment and in the shared configuration files.
//
// It is a separate package because the clients of all other services would make the
// agent larger.
package firstboot

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// ipv6Metadata is the service's IPv6 address. It works only when it is enabled, and
// is used when the IPv4 address has no route.
const ipv6Metadata = "[fd00:ec2::254]"

// maxMetadata bounds an answer of the service, in bytes. The longest is user data
// with 16 KiB.
const maxMetadata = 1 << 20

// metadataTimeout bounds each attempt to reach the service.
const metadataTimeout = 2 * time.Second

const tokenPath = "/latest/api/token"

// Metadata is the EC2 instance metadata service, version 2 only. Its address and
// mode come from the SDK's settings, such as AWS_EC2_METADATA_SERVICE_ENDPOINT.
// Requests never use a proxy. It is not safe for concurrent use.
type Metadata struct {
	// Attempts is the maximum number of attempts for each request. The pause
	// between attempts doubles up to a second.
	Attempts int
	client   *imds.Client
	// patience bounds each request, with all its attempts; 0 means no limit.
	patience time.Duration
	// apiAttempts is the maximum number of attempts for calls of EC2 and EKS.
	apiAttempts int
	// longest is the longest pause between attempts.
	longest time.Duration
	log     func(string)
	// last is the error of the last attempt. The SDK hides errors of token
	// requests.
	last error
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// OpenMetadata reads the configuration and sends no request.
func OpenMetadata(ctx context.Context) (*Metadata, error) {
	return openMetadata(ctx, (&net.Dialer{Timeout: metadataTimeout}).DialContext)
}

func openMetadata(ctx context.Context, dial dialer) (*Metadata, error) {
	c, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}))
	if err != nil {
		return nil, fmt.Errorf("reading the AWS configuration: %w", err)
	}
	m := &Metadata{Attempts: 20, apiAttempts: nodeAttempts, longest: time.Second, log: func(string) {}}
	var endpoint string
	m.client = imds.NewFromConfig(c, func(o *imds.Options) {
		endpoint = o.Endpoint
		isDefault := endpoint == "" && o.EndpointMode == imds.EndpointModeStateUnset
		o.HTTPClient = metadataHTTP(dial, isDefault)
		o.Retryer = m.retryer(isMetadataRetryable)
		o.EnableFallback = aws.FalseTernary
		o.DisableDefaultTimeout, o.DisableDefaultMaxBackoff = true, true
		o.APIOptions = append(o.APIOptions, bounded(maxMetadata))
	})
	if endpoint != "" {
		if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("AWS_EC2_METADATA_SERVICE_ENDPOINT: %q is not an address such as "+
				"http://169.254.169.254", endpoint)
		}
	}
	return m, nil
}

// AtBoot makes requests wait as long as a booting instance needs: its network, its
// instance profile and AWS's answers may be minutes late. log receives a line at
// growing intervals that says what is awaited.
func (m *Metadata) AtBoot(log func(string)) {
	m.Attempts, m.patience, m.apiAttempts, m.log = int(bootPatience/time.Second)+5, bootPatience, bootAPIAttempts, log
}

const (
	// bootPatience bounds the wait for the metadata service and for the role's
	// credentials. Amazon's nodeadm makes 60 attempts, which is a minute.
	bootPatience = 5 * time.Minute
	// bootAPIAttempts is more than five minutes, with pauses of at most ten seconds.
	// Amazon's nodeadm makes 30 attempts.
	bootAPIAttempts = 40
)

// tell logs a failed attempt, at the 4th, 8th, 16th … so that a long wait has few
// lines.
func tell(log func(string), attempt, most int, what string, err error) {
	if attempt >= 4 && attempt&(attempt-1) == 0 {
		log(fmt.Sprintf("waiting for %s, attempt %d of %d: %v", what, attempt, most, err))
	}
}

// Get reads an entry below /latest/, such as meta-data/instance-type. The error for
// an entry that the instance does not have is fs.ErrNotExist.
func (m *Metadata) Get(ctx context.Context, entry string) ([]byte, error) {
	m.last = nil
	if m.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, m.patience, fmt.Errorf("no answer within %s", m.patience))
		defer cancel()
	}
	content, err := m.content(ctx, entry)
	if err != nil {
		return nil, fmt.Errorf("asking the instance metadata service for %s: %w", entry, m.explain(ctx, err))
	}
	defer content.Close()
	return io.ReadAll(content) // the SDK has the content in memory
}

func (m *Metadata) content(ctx context.Context, entry string) (io.ReadCloser, error) {
	folder, path, _ := strings.Cut(entry, "/")
	switch folder {
	case "user-data":
		out, err := m.client.GetUserData(ctx, &imds.GetUserDataInput{})
		if err != nil {
			return nil, err
		}
		return out.Content, nil
	case "dynamic":
		out, err := m.client.GetDynamicData(ctx, &imds.GetDynamicDataInput{Path: path})
		if err != nil {
			return nil, err
		}
		return out.Content, nil
	default:
		out, err := m.client.GetMetadata(ctx, &imds.GetMetadataInput{Path: path})
		if err != nil {
			return nil, err
		}
		return out.Content, nil
	}
}

// UserData is the instance's user data, or nil when it has none.
func (m *Metadata) UserData(ctx context.Context) ([]byte, error) {
	data, err := m.Get(ctx, "user-data")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Probe returns nil as soon as a metadata service answers, and otherwise the
// reason. It tries at least once, until the time is over.
func (m *Metadata) Probe(ctx context.Context, within time.Duration) error {
	const atLeast = 500 * time.Millisecond
	before := m.Attempts
	defer func() { m.Attempts = before }()
	m.Attempts = max(1, int(within/firstPause))
	ctx, cancel := context.WithTimeoutCause(ctx, max(within, atLeast),
		fmt.Errorf("no answer within %s", max(within, atLeast)))
	defer cancel()
	if _, err := m.Get(ctx, "meta-data/instance-id"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// firstPause is the pause before the second attempt.
const firstPause = 50 * time.Millisecond

// retryer retries for as long as a booting instance needs: its network and its
// metadata may appear some seconds late.
func (m *Metadata) retryer(isRetryable func(error) bool) aws.Retryer {
	return metadataRetryer{m, retry.NewStandard(func(o *retry.StandardOptions) {
		o.RateLimiter = ratelimit.None
		o.Retryables = []retry.IsErrorRetryable{retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			var decided interface{ RetryableError() bool } // by the SDK, about tokens
			if errors.As(err, &decided) {
				return aws.BoolTernary(decided.RetryableError())
			}
			m.last = err
			return aws.BoolTernary(isRetryable(err))
		})}
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, err error) (time.Duration, error) {
			tell(m.log, attempt, m.Attempts, "the instance metadata service", cmp.Or(m.last, err))
			return min(firstPause<<min(attempt-1, 5), m.longest), nil
		})
	})}
}

// metadataRetryer reads the number of attempts from the service at the start of
// each request.
type metadataRetryer struct {
	service *Metadata
	*retry.Standard
}

func (r metadataRetryer) MaxAttempts() int { return r.service.Attempts }

// isMetadataRetryable reports whether a failed attempt may succeed later.
func isMetadataRetryable(err error) bool {
	switch {
	case errors.As(err, new(*smithyhttp.ResponseError)):
		return !isMissing(err)
	default:
		return errors.As(err, new(*smithyhttp.RequestSendError)) || errors.Is(err, io.ErrUnexpectedEOF)
	}
}

// isMissing says that the service answers but has no such entry.
func isMissing(err error) bool {
	var answer *smithyhttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusNotFound &&
		answer.Response.Request.URL.Path != tokenPath
}

// explain adds what to check.
func (m *Metadata) explain(ctx context.Context, err error) error {
	reason := err
	if m.last != nil {
		reason = m.last
	}
	var answer *smithyhttp.ResponseError
	switch {
	case isMissing(reason):
		return missingEntry{}
	case ctx.Err() != nil:
		return fmt.Errorf("%w (last: %w)", context.Cause(ctx), reason)
	case errors.As(reason, new(*smithyhttp.RequestSendError)):
		return fmt.Errorf("%w; is this an EC2 instance, is its network up, and is the metadata service's hop limit "+
			"enough for containers?", err)
	case errors.As(reason, &answer) && answer.HTTPStatusCode() == http.StatusForbidden:
		return fmt.Errorf("%w; the metadata service is off: set the instance's metadata options to "+
			"http-endpoint=enabled", err)
	case errors.As(reason, &answer), strings.Contains(err.Error(), "AWS_EC2_METADATA_DISABLED"):
		return err
	default:
		return fmt.Errorf("%w; something else answers at the service's address", err)
	}
}

// missingEntry is the error for an entry that the instance does not have.
type missingEntry struct{}

func (missingEntry) Error() string { return "the answer is 404 Not Found" }

// Is makes missingEntry equal fs.ErrNotExist.
func (missingEntry) Is(target error) bool { return target == fs.ErrNotExist }

// metadataHTTP uses no proxy and follows no redirect. With second, a request that
// cannot reach the IPv4 address goes to the IPv6 address.
func metadataHTTP(dial dialer, second bool) *http.Client {
	var transport http.RoundTripper = &http.Transport{DialContext: dial, DisableCompression: true,
		ResponseHeaderTimeout: metadataTimeout}
	if second {
		transport = &either{transport: transport}
	}
	return &http.Client{
		Transport: transport, Timeout: 3 * metadataTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// either repeats at the IPv6 address a request that could not reach the IPv4
// address.
type either struct {
	transport http.RoundTripper
	isIPv6    atomic.Bool
}

// RoundTrip implements http.RoundTripper. The requests have no body.
func (e *either) RoundTrip(r *http.Request) (*http.Response, error) {
	other := r.Clone(r.Context())
	other.URL.Host, other.Host = ipv6Metadata, ipv6Metadata
	first, second := r, other
	if e.isIPv6.Load() {
		first, second = other, r
	}
	answer, err := e.transport.RoundTrip(first)
	if err == nil || r.Context().Err() != nil {
		return answer, err
	}
	answer, errSecond := e.transport.RoundTrip(second)
	if errSecond != nil {
		return nil, errors.Join(err, errSecond)
	}
	e.isIPv6.Store(second == other)
	return answer, nil
}

const (
	// tokenPrefix marks tokens for EKS's authenticator.
	tokenPrefix = "k8s-aws-v1."
	// clusterHeader is signed, so that a token is valid for one cluster only.
	clusterHeader = "x-k8s-aws-id"
	// tokenLife is how long a token is used: one minute less than the 15 minutes
	// that the authenticator accepts.
	tokenLife = 14 * time.Minute
)

// Token returns a token that proves the node's identity to a cluster. The token is
// a signed address at which STS would return the identity. The function sends no
// request; the authenticator calls STS. Source:
// https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster.
func (n *Node) Token(ctx context.Context, region, cluster string) (token string, expires time.Time, err error) {
	if err := n.credentials(ctx); err != nil {
		return "", time.Time{}, err
	}
	now := time.Now()
	presign := sts.NewPresignClient(sts.NewFromConfig(n.config, func(o *sts.Options) { o.Region = region }))
	signed, err := presign.PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{},
		sts.WithPresignClientFromClientOptions(sts.WithAPIOptions(
			smithyhttp.SetHeaderValue(clusterHeader, cluster), smithyhttp.SetHeaderValue("X-Amz-Expires", "60"))))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("signing the token: %w", err)
	}
	return tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(signed.URL)), now.Add(tokenLife), nil
}
