// Package nodeapi is the little that a node asks of AWS's APIs: three calls and
// a signed address. It signs requests with the SDK's signer and speaks HTTP
// itself; the SDK's clients of EC2 and EKS would add 2.3 MB (0.7 MB compressed,
// July 2026) to the program that every first boot reads from a cold disk, this
// package adds a twentieth of that.
package nodeapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 4 << 20

// Credentials sign requests.
type Credentials struct{ AccessKeyID, SecretAccessKey, Token string }

// Client calls AWS's APIs in one region.
type Client struct {
	Region string
	// Credentials supplies the node's credentials whenever they are needed.
	Credentials func(context.Context) (Credentials, error)
	// HTTP sends the requests; it knows the node's proxies.
	HTTP *http.Client
	// Endpoints are the addresses of a service in a region, tried in order
	// while they cannot be reached.
	Endpoints func(service, region string) []string
	// Attempts is how often a request is sent at most when the answer is that
	// it may work later, and Wait the pause before the second; it doubles.
	Attempts int
	Wait     time.Duration
	// Timeout bounds each attempt.
	Timeout time.Duration
	// Now is the time that signatures carry.
	Now func() time.Time
}

// New returns a client with the patience that a first boot has.
func New(region string, credentials func(context.Context) (Credentials, error), transport http.RoundTripper) *Client {
	return &Client{
		Region: region, Credentials: credentials, HTTP: &http.Client{Transport: transport}, Endpoints: Endpoints,
		Attempts: 6, Wait: 500 * time.Millisecond, Timeout: 15 * time.Second, Now: time.Now,
	}
}

// partitions are the domains of services by how a region's name begins.
var partitions = []struct{ prefix, domain, dualStack string }{
	{"cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn"}, {"us-iso-", "c2s.ic.gov", ""}, {"us-isob-", "sc2s.sgov.gov", ""},
	{"us-isof-", "csp.hci.ic.gov", ""}, {"eu-isoe-", "cloud.adc-e.uk", ""}, {"eusc-", "amazonaws.eu", "api.amazonwebservices.eu"},
	{"", "amazonaws.com", "api.aws"},
}

// Endpoints are AWS's: the usual one, then the one that has IPv6 too, for
// nodes that have nothing else.
func Endpoints(service, region string) []string {
	for _, p := range partitions {
		if !strings.HasPrefix(region, p.prefix) {
			continue
		}
		list := []string{fmt.Sprintf("https://%s.%s.%s", service, region, p.domain)}
		if p.dualStack != "" && service != "sts" {
			list = append(list, fmt.Sprintf("https://%s.%s.%s", service, region, p.dualStack))
		}
		return list
	}
	return nil // the last partition takes every region
}

// Error is AWS's refusal of a request.
type Error struct {
	Status        int
	Code, Message string
}

func (e *Error) Error() string {
	text := strings.TrimSpace(e.Code + ": " + e.Message)
	if e.Code == "" {
		text = http.StatusText(e.Status)
	}
	return fmt.Sprintf("%s (%d)%s", strings.TrimSuffix(text, ":"), e.Status, e.remedy())
}

func (e *Error) remedy() string {
	switch {
	case strings.Contains(e.Code, "Unauthorized"), strings.Contains(e.Code, "AccessDenied"):
		return "; the node's role needs the policy AmazonEKSWorkerNodePolicy"
	case strings.Contains(e.Code, "ResourceNotFound"):
		return "; check the name and the region"
	case e.Code == "AuthFailure", e.Code == "RequestExpired", strings.Contains(e.Code, "SignatureDoesNotMatch"):
		return "; is the machine's clock right?"
	default:
		return ""
	}
}

// passes says whether the same request may work later.
func (e *Error) passes() bool {
	return e.Status >= 500 || e.Status == http.StatusTooManyRequests || strings.Contains(e.Code, "Throttl") ||
		strings.Contains(e.Code, "RequestLimitExceeded") || strings.Contains(e.Code, "ExpiredToken")
}

// request is one call. parse makes an Error of an answer that is none.
type request struct {
	service, method, path, body, contentType string
	parse                                    func(status int, header http.Header, body []byte) *Error
}

// call sends a request until it is answered, refused or hopeless.
func (c *Client) call(ctx context.Context, r request) ([]byte, error) {
	wait := c.Wait
	for attempt := 1; ; attempt++ {
		body, err := c.try(ctx, r)
		var refused *Error
		if err == nil || errors.As(err, &refused) && !refused.passes() {
			return body, err
		}
		if attempt >= c.Attempts {
			return nil, fmt.Errorf("gave up after %d attempts: %w", attempt, err)
		}
		if cause := pause(ctx, wait); cause != nil {
			return nil, fmt.Errorf("%w (last: %w)", cause, err)
		}
		wait = min(2*wait, 10*time.Second)
	}
}

// pause waits, or says why it should not.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// try sends a request to each endpoint until one can be reached.
func (c *Client) try(ctx context.Context, r request) ([]byte, error) {
	var errs []error
	for _, endpoint := range c.Endpoints(r.service, c.Region) {
		body, err := c.send(ctx, endpoint, r)
		var refused *Error
		if err == nil || errors.As(err, &refused) {
			return body, err
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (c *Client) send(ctx context.Context, endpoint string, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("%s: no answer within %s; the node needs a way to it: a NAT gateway, an endpoint in its VPC or a proxy", endpoint, c.Timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, endpoint+r.path, strings.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if err := c.sign(ctx, req, r); err != nil {
		return nil, err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", endpoint, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, r.parse(resp.StatusCode, resp.Header, body)
	}
	return body, nil
}

func (c *Client) sign(ctx context.Context, req *http.Request, r request) error {
	creds, err := c.Credentials(ctx)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(r.body))
	err = v4.NewSigner().SignHTTP(ctx, creds.sdk(), req, hex.EncodeToString(sum[:]), r.service, c.Region, c.Now())
	if err != nil {
		return fmt.Errorf("signing the request: %w", err)
	}
	return nil
}

func (c Credentials) sdk() aws.Credentials {
	return aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.Token}
}
