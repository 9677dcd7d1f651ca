// Package imds asks the EC2 instance metadata service (version 2, with tokens)
// for what an instance knows about itself. It retries what may pass, gives up
// in time, and says what to look at when it does.
package imds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Endpoints are the service's addresses, as every instance has them. The second
// answers where the first has no route: on instances with IPv6 only, and only
// when it is enabled there.
func Endpoints() []string { return []string{"http://169.254.169.254", "http://[fd00:ec2::254]"} }

// tokenLife is how long a token is asked for, in seconds: six hours, the most.
const tokenLife = "21600"

// maxAnswer bounds an answer, in bytes; user data is the longest with 16 KiB.
const maxAnswer = 1 << 20

// ErrNotFound says that the service has no such entry, for instance no role or
// no user data.
var ErrNotFound = errors.New("the instance has no such metadata")

// Client asks one service. It is not safe for concurrent use.
type Client struct {
	// Endpoints are tried in order until one answers.
	Endpoints []string
	// Attempts is how often each request is sent at most, and Wait the pause
	// before the second; it doubles with each up to a second.
	Attempts int
	Wait     time.Duration
	// Timeout bounds each attempt.
	Timeout time.Duration

	http     *http.Client
	endpoint string
	token    string
}

// New returns a client with the patience that a booting instance needs: its
// network may come up, and its metadata appear, some seconds later.
func New(endpoints []string) *Client {
	return &Client{
		Endpoints: endpoints, Attempts: 12, Wait: 50 * time.Millisecond, Timeout: 2 * time.Second,
		http: &http.Client{
			// No proxy: the address is link-local.
			Transport:     &http.Transport{DialContext: (&net.Dialer{}).DialContext, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Get reads one entry below /latest/, such as meta-data/instance-type.
func (c *Client) Get(ctx context.Context, entry string) ([]byte, error) {
	data, err := c.get(ctx, entry)
	if err != nil {
		return nil, fmt.Errorf("asking the instance metadata service for %s: %w", entry, err)
	}
	return data, nil
}

// Text is Get for an entry of one line.
func (c *Client) Text(ctx context.Context, entry string) (string, error) {
	data, err := c.Get(ctx, entry)
	if err != nil {
		return "", err
	}
	text, err := line(data)
	if err != nil {
		return "", fmt.Errorf("asking the instance metadata service for %s: %w", entry, err)
	}
	return text, nil
}

func line(data []byte) (string, error) {
	text := strings.TrimSpace(string(data))
	if text == "" || strings.ContainsAny(text, "<>\r\n\x00") {
		return "", unexpected(data)
	}
	return text, nil
}

// UserData is the instance's user data; nil when it has none.
func (c *Client) UserData(ctx context.Context) ([]byte, error) {
	data, err := c.Get(ctx, "user-data")
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return data, err
}

// Probe says why nobody answers as the service does, or nil when it does. It
// asks until then or until the time is over, and at least once.
func (c *Client) Probe(ctx context.Context, within time.Duration) error {
	impatient := *c
	impatient.Timeout = min(c.Timeout, 500*time.Millisecond)
	impatient.Attempts = max(1, int(within/c.Wait))
	patience, cancel := context.WithTimeoutCause(ctx, max(within, impatient.Timeout), fmt.Errorf("no answer within %s", within))
	defer cancel()
	err := impatient.retry(patience, impatient.authorize)
	if err == nil {
		c.endpoint, c.token = impatient.endpoint, impatient.token
	}
	return err
}

func (c *Client) get(ctx context.Context, entry string) ([]byte, error) {
	var data []byte
	err := c.retry(ctx, func(ctx context.Context) (err error) {
		data, err = c.once(ctx, entry)
		return err
	})
	return data, err
}

// once asks for an entry without patience, with a token.
func (c *Client) once(ctx context.Context, entry string) ([]byte, error) {
	if c.token == "" {
		if err := c.authorize(ctx); err != nil {
			return nil, err
		}
	}
	data, err := c.do(ctx, c.endpoint, http.MethodGet, "/latest/"+entry, "X-aws-ec2-metadata-token", c.token)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusUnauthorized {
		c.token = "" // it ran out
	}
	return data, err
}

// authorize fetches a token from the first endpoint that gives one.
func (c *Client) authorize(ctx context.Context) error {
	var errs []error
	for _, endpoint := range c.Endpoints {
		data, err := c.do(ctx, endpoint, http.MethodPut, "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", tokenLife)
		if err == nil {
			token := string(bytes.TrimSpace(data))
			if token == "" || strings.ContainsAny(token, " <>\r\n\t\x00") {
				return final{fmt.Errorf("the token: %w", unexpected(data))}
			}
			c.endpoint, c.token = endpoint, token
			return nil
		}
		errs = append(errs, fmt.Errorf("the token: %w", err))
		var status *statusError
		if errors.As(err, &status) {
			break // it is there
		}
	}
	return errors.Join(errs...)
}

// do sends one request.
func (c *Client) do(ctx context.Context, endpoint, method, path, header, value string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("no answer within %s", c.Timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, endpoint+path, nil)
	if err != nil {
		return nil, final{err}
	}
	req.Header.Set(header, value)
	resp, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%s: %w", endpoint, cause)
		}
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer of %s: %w", endpoint, err)
	case resp.StatusCode != http.StatusOK:
		return nil, &statusError{resp.StatusCode, path}
	case len(data) > maxAnswer:
		return nil, final{fmt.Errorf("%s answers with more than %d bytes", endpoint, maxAnswer)}
	}
	return data, nil
}

// retry sends until it goes through, cannot go through, or went wrong too
// often.
func (c *Client) retry(ctx context.Context, send func(context.Context) error) error {
	wait := c.Wait
	for attempt := 1; ; attempt++ {
		err := send(ctx)
		var stop final
		switch {
		case err == nil, errors.Is(err, ErrNotFound):
			return err
		case errors.As(err, &stop):
			return stop.error
		case ctx.Err() != nil:
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		case attempt >= c.Attempts:
			return fmt.Errorf("gave up after %d attempts: %w%s", attempt, err, remedy(err))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		case <-timer.C:
		}
		wait = min(2*wait, time.Second)
	}
}

// final is an error that trying again does not mend.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// statusError is an answer that is not 200.
type statusError struct {
	code int
	path string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the answer is %d %s", e.code, http.StatusText(e.code))
}

// Is makes a missing entry ErrNotFound.
func (e *statusError) Is(target error) bool {
	return target == ErrNotFound && e.code == http.StatusNotFound && e.path != "/latest/api/token"
}

// remedy says what to look at.
func remedy(err error) string {
	var status *statusError
	switch {
	case !errors.As(err, &status):
		return "; is this an EC2 instance, is its network up, and is the metadata service's hop limit enough for containers?"
	case status.code == http.StatusForbidden:
		return "; the metadata service is off: set the instance's metadata options to http-endpoint=enabled"
	default:
		return ""
	}
}

func unexpected(data []byte) error {
	const most = 60
	shown := data
	if len(shown) > most {
		shown = shown[:most]
	}
	return fmt.Errorf("unexpected content %q: something else answers at the service's address", shown)
}
