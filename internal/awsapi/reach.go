package awsapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	// connectTime is the limit for name resolution and the TCP connection, and also
	// for the TLS handshake. A route between continents needs less than one second.
	connectTime = 2 * time.Second
	// firstAnswer is the limit for the first response of a service with short
	// answers. After this response, AWS is known to respond.
	firstAnswer = 4500 * time.Millisecond
	// silence is how long a server may send nothing, in the middle of a response or
	// before it. The SDK has no limit.
	silence = time.Minute
)

// quickClient is the SDK's client with short limits for connections.
func quickClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectTime }).
		WithTransportOptions(func(t *http.Transport) { t.TLSHandshakeTimeout = connectTime })
}

// errSilent is the reason for the end of a request without a response.
var errSilent = fmt.Errorf("no response within %s", firstAnswer)

// quick is a configuration for services with short answers. EC2 and Auto Scaling
// have long lists, which take longer.
func (o Options) quick(c aws.Config) aws.Config {
	if o.HTTP == nil {
		c.HTTPClient = patient{c.HTTPClient, &atomic.Bool{}}
	}
	return c
}

// patient limits the time to the first response.
type patient struct {
	aws.HTTPClient
	answered *atomic.Bool
}

func (p patient) Do(in *http.Request) (*http.Response, error) {
	if p.answered.Load() {
		return p.HTTPClient.Do(in)
	}
	ctx, cancel := context.WithCancelCause(in.Context())
	timer := time.AfterFunc(firstAnswer, func() { cancel(errSilent) })
	out, err := p.HTTPClient.Do(in.WithContext(ctx))
	switch stopped := timer.Stop(); {
	case err == nil && stopped:
		p.answered.Store(true)
	case !stopped && in.Context().Err() == nil:
		if out != nil {
			_ = out.Body.Close() // the request has failed already
		}
		return nil, &url.Error{Op: in.Method, URL: in.URL.String(), Err: errSilent}
	}
	return out, err
}

// noRetry says that another attempt would fail like the first one, because the
// connection cannot be made: nothing listens, the name does not resolve, a proxy
// refuses, or the certificate is wrong.
func noRetry(err error) aws.Ternary {
	if unreached(err) != nil {
		return aws.FalseTernary
	}
	return aws.UnknownTernary
}

// unreached returns the reason why no connection was made, or nil.
func unreached(err error) error {
	var (
		dns    *net.DNSError
		op     *net.OpError
		record tls.RecordHeaderError
		cert   *tls.CertificateVerificationError
		host   x509.HostnameError
		alert  tls.AlertError
	)
	var made *url.Error
	if !errors.As(err, &made) {
		return nil
	}
	switch {
	case errors.Is(err, errSilent):
		return errSilent
	case errors.As(err, &cert):
		return cert
	case errors.As(err, &host):
		return host
	case errors.As(err, &record):
		return errors.New("the server does not use TLS")
	case errors.As(err, &alert):
		return alert
	case errors.As(err, &dns):
		return resolved(dns)
	case errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect"):
		if op.Op == "proxyconnect" {
			return fmt.Errorf("connecting to the proxy: %w; check HTTPS_PROXY and NO_PROXY", op.Err)
		}
		if op.Timeout() {
			return fmt.Errorf("connecting to %s: no response within %s", addressOf(op), connectTime)
		}
		if op.Op == "dial" {
			return fmt.Errorf("connecting to %s: %w", addressOf(op), op.Err)
		}
		return op
	case strings.Contains(made.Err.Error(), "TLS handshake timeout"):
		return fmt.Errorf("TLS: no response within %s", connectTime)
	case strings.Contains(made.Err.Error(), "server gave HTTP response to HTTPS client"):
		return errors.New("the server does not use TLS")
	case strings.HasPrefix(made.Err.Error(), "tls: "), strings.HasPrefix(made.Err.Error(), "x509: "),
		strings.HasPrefix(made.Err.Error(), "remote error: tls: "):
		return made.Err
	case os.IsTimeout(made.Err) && strings.Contains(made.Err.Error(), "dial"):
		return made.Err
	}
	return proxied(made)
}

// resolved is the reason why a name has no address.
func resolved(dns *net.DNSError) error {
	if dns.IsNotFound {
		return fmt.Errorf("the name %s does not resolve; is the region or the endpoint wrong?", dns.Name)
	}
	if dns.IsTimeout {
		return fmt.Errorf("resolving %s: the name server did not respond", dns.Name)
	}
	return fmt.Errorf("resolving %s: %s", dns.Name, dns.Err)
}

// proxied returns the answer of a proxy that refuses to connect, or nil. net/http
// returns the proxy's status text as an error without a type.
func proxied(made *url.Error) error {
	text := made.Err.Error()
	for status := http.StatusBadRequest; status < 600; status++ {
		if text != "" && text == http.StatusText(status) {
			return fmt.Errorf("the proxy refused the connection: %s; check HTTPS_PROXY and NO_PROXY", text)
		}
	}
	return nil
}

// addressOf is the address of a failed connection.
func addressOf(op *net.OpError) string {
	if op.Addr == nil {
		return "the server"
	}
	return op.Addr.String()
}

// UnreachedError says that no connection to a service was made.
type UnreachedError struct {
	// Host is the host of the service, with its port if it is not the usual one.
	Host string
	// Reason says why.
	Reason error
}

func (e *UnreachedError) Error() string {
	text := fmt.Sprintf("%s is not reachable: %v", e.Host, e.Reason)
	if strings.HasPrefix(e.Host, "ebs.") || strings.HasPrefix(e.Host, "ebs-fips.") {
		text += "; a private network needs an endpoint for ebs, and not every region has the EBS direct APIs"
	}
	return text
}

// Unwrap lets errors.Is examine the reason.
func (e *UnreachedError) Unwrap() error { return e.Reason }

// unreachedOf is the short form of the SDK's error for a connection that was not
// made, or nil for other errors.
func unreachedOf(err error) *UnreachedError {
	reason := unreached(err)
	var made *url.Error
	if reason == nil || !errors.As(err, &made) {
		return nil
	}
	host := made.URL
	if u, err := url.Parse(made.URL); err == nil {
		host = u.Host
	}
	return &UnreachedError{host, reason}
}

// strangerError is an error response that is not in AWS's form.
type strangerError struct{ Status int }

func (e *strangerError) Error() string {
	return fmt.Sprintf("the answer is HTTP %d without an error of AWS; check the endpoint, and proxies on the way",
		e.Status)
}

// strangerOf is the error for a response that the SDK cannot read, or nil for other errors:
// the SDK's client of EBS does not decode it, and others have a code for it. A service of AWS
// that fails may answer so, too; whether the call was carried out is not known.
func strangerOf(err error) *strangerError {
	var answer *smithyhttp.ResponseError
	var api smithy.APIError
	switch known := errors.As(err, &api); {
	case !errors.As(err, &answer), known && api.ErrorCode() != "UnknownError",
		!known && (!errors.As(err, new(*smithy.DeserializationError)) ||
			answer.HTTPStatusCode() < http.StatusBadRequest):
		return nil
	}
	return &strangerError{answer.HTTPStatusCode()}
}

// IsUnanswered says that a call got no answer of AWS: a network or an address is
// wrong, and another call would fail too.
func IsUnanswered(err error) bool {
	return errors.As(err, new(*UnreachedError)) || errors.As(err, new(*strangerError)) ||
		errors.As(err, new(*smithyhttp.RequestSendError))
}
