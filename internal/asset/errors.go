package asset

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
)

// statusError is a response other than the file.
type statusError struct {
	code   int
	status string
}

func (e *statusError) Error() string { return "the server answered " + e.status }

// truncatedError is a body that ended before its announced length.
type truncatedError struct{ done, total int64 }

func (e *truncatedError) Error() string {
	if e.total < 0 {
		return fmt.Sprintf("the download was cut off after %d bytes", e.done)
	}
	return fmt.Sprintf("the download was cut off after %d of %d bytes", e.done, e.total)
}

// errStalled is a server that sends nothing any more.
var errStalled = errors.New("the server stopped sending")

// errDropped is a server that closes the connection before it answers. Package
// http calls that io.EOF, which would look like the end of the file.
var errDropped = errors.New("the server closed the connection without an answer")

// errChanged is a file whose later piece does not match the first.
var errChanged = errors.New("the file changed while it was being downloaded")

// stalled returns errStalled when a request's context ended for that reason, and
// err otherwise.
func stalled(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errStalled) {
		return errStalled
	}
	return nil
}

// transient says whether a later request may succeed. Connections break in too many
// ways to list, so the function lists the final failures.
func transient(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return status.code >= 500 || status.code == http.StatusTooManyRequests || status.code == http.StatusRequestTimeout
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return !dns.IsNotFound
	}
	var judged interface{ Final() bool }
	if errors.As(err, &judged) {
		return !judged.Final()
	}
	var notTLS tls.RecordHeaderError
	return !untrusted(err) && !errors.As(err, &notTLS)
}

// untrusted says whether a server's certificate could not be verified.
func untrusted(err error) bool {
	var unverified *tls.CertificateVerificationError
	return errors.As(err, &unverified)
}

// absent says whether a status means that the file does not exist. S3 answers 403
// for a missing file when the bucket may not be listed.
func absent(code int) bool {
	return code == http.StatusNotFound || code == http.StatusGone || code == http.StatusForbidden
}

// explain is Download.explain; for a missing file it also lists the existing
// versions.
func (f *Fetcher) explain(ctx context.Context, d Download, address string, err error) error {
	var status *statusError
	if errors.As(err, &status) && absent(status.code) || errors.Is(err, fs.ErrNotExist) {
		return f.explainMissing(ctx, d, address, err)
	}
	return d.explain(address, err)
}

// explain says what a failed request for a download means and what to do.
func (d Download) explain(address string, err error) error {
	var status *statusError
	var truncated *truncatedError
	var network net.Error
	switch {
	case errors.As(err, &status) && absent(status.code):
		return surface.Errorf("%s does not exist at %s: %w; check %s%s", d, withoutUser(address), err, d.VersionSource, d.whereElse(" or what the mirror %s holds"))
	case errors.Is(err, fs.ErrNotExist):
		return surface.Errorf("%s does not exist at %s; check %s%s", d, withoutUser(address), d.VersionSource, d.whereElse(" or what the folder %s holds"))
	case errors.As(err, &status), errors.As(err, &truncated), errors.Is(err, errStalled), errors.Is(err, errDropped), errors.Is(err, errChanged):
		return fmt.Errorf("fetching %s: %w; try again%s", withoutUser(address), err, d.whereElse(" or check the mirror %s"))
	case untrusted(err):
		return fmt.Errorf("reaching %s for %s: %w; install the certificate authority that signed it on this machine", hostOf(address), withoutUser(address), err)
	case errors.As(err, &network):
		return d.unreachable(address, err)
	default:
		return fmt.Errorf("fetching %s: %w", withoutUser(address), err)
	}
}

func (d Download) whereElse(format string) string {
	if d.Mirror == "" {
		return ""
	}
	return fmt.Sprintf(format, d.Mirror)
}

// unreachable explains an unreachable server and names the remedy.
func (d Download) unreachable(address string, err error) error {
	const source = surface.Name("source_url")
	if d.Mirror != "" {
		return surface.Errorf("reaching %s for %s: %w; check that this machine can reach the mirror named by %s (%s)", hostOf(address), withoutUser(address), err, source, d.Mirror)
	}
	return surface.Errorf("reaching %s for %s: %w; check this machine's network and proxy, or name a mirror it can reach with %s", hostOf(address), withoutUser(address), err, source)
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the server"
	}
	return u.Host
}

// explainWrite adds the remedy for a file that could not be written.
func explainWrite(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w; free some space or give the machine a larger disk", err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w; remount it for writing, or choose a base image whose root can be written", err)
	default:
		return err
	}
}
