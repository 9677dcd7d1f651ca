package asset

import (
	"context"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/mod/semver"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
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

var errStalled = errors.New("the server stopped sending")

// errDropped is a server that closes the connection before it answers. Package
// http calls that io.EOF, which would look like the end of the file.
var errDropped = errors.New("the server closed the connection without an answer")

// errChanged is a file whose later piece does not match the first.
var errChanged = errors.New("the file changed while it was being downloaded")

// transient says whether a later request may succeed. Connections break in too many
// ways to list, so the function lists the final failures.
func transient(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		return status.code >= 500 || status.code == http.StatusTooManyRequests ||
			status.code == http.StatusRequestTimeout
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return !dns.IsNotFound
	}
	var judged interface{ Final() bool }
	if errors.As(err, &judged) {
		return !judged.Final()
	}
	return !untrusted(err) && !errors.As(err, new(tls.RecordHeaderError))
}

// untrusted says whether a server's certificate could not be verified.
func untrusted(err error) bool {
	return errors.As(err, new(*tls.CertificateVerificationError))
}

// absent says whether a status means that the file does not exist. S3 answers 403
// for a missing file when the bucket may not be listed.
func absent(code int) bool {
	return code == http.StatusNotFound || code == http.StatusGone || code == http.StatusForbidden
}

// isMissing says that a request failed because the file does not exist.
func isMissing(err error) bool {
	status, answered := errors.AsType[*statusError](err)
	return answered && absent(status.code) || errors.Is(err, fs.ErrNotExist)
}

// explain says what a failed request for a download means and what to do.
func (d Download) explain(address string, err error) error {
	var status *statusError
	switch {
	case errors.As(err, &status) && absent(status.code):
		return surface.Errorf("%s does not exist at %s: %w; check %s%s", d, Place(address), err, d.VersionSource,
			d.whereElse(" or what the mirror %s holds"))
	case errors.Is(err, fs.ErrNotExist):
		return surface.Errorf("%s does not exist at %s; check %s%s", d, Place(address), d.VersionSource,
			d.whereElse(" or what the folder %s holds"))
	case errors.As(err, &status), errors.As(err, new(*truncatedError)), errors.Is(err, errStalled),
		errors.Is(err, errDropped), errors.Is(err, errChanged):
		return fmt.Errorf("fetching %s: %w; try again%s", Place(address), err,
			d.whereElse(" or check the mirror %s"))
	case untrusted(err):
		return fmt.Errorf("reaching %s for %s: %w; install the certificate authority that signed it on this machine",
			hostOf(address), Place(address), err)
	case errors.As(err, new(net.Error)):
		return d.unreachable(address, err)
	default:
		return fmt.Errorf("fetching %s: %w", Place(address), err)
	}
}

func (d Download) whereElse(format string) string {
	if d.Mirror == "" {
		return ""
	}
	return fmt.Sprintf(format, d.Mirror)
}

func (d Download) unreachable(address string, err error) error {
	const source = surface.Name("source_url")
	if d.Mirror != "" {
		return surface.Errorf("reaching %s for %s: %w; check that this machine can reach the mirror named by %s (%s)",
			hostOf(address), Place(address), err, source, d.Mirror)
	}
	return surface.Errorf("reaching %s for %s: %w; check this machine's network and proxy, or name a mirror it can "+
		"reach with %s", hostOf(address), Place(address), err, source)
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

// versionFolder is a folder with one entry for each version or build date of an
// asset.
type versionFolder struct {
	address       string // ends with a slash
	before, after string // the parts of a name around the version
	want          string // the requested version
	what          string // "versions" or "build dates"
	bucket        bool   // an S3 bucket lists it
}

// versionFolders finds the folders in an address's template that contain versions.
func versionFolders(template string, fill *strings.Replacer, source, published string) ([]versionFolder, error) {
	var found []versionFolder
	parts := strings.Split(template, "/")
	for i, part := range parts[:len(parts)-1] {
		for variable, what := range map[string]string{"{version}": "versions", "{kubernetes}": "versions",
			"{date}": "build dates"} {
			before, after, there := strings.Cut(part, variable)
			if !there {
				continue
			}
			address, err := mirrored(source, fill.Replace(strings.Join(parts[:i], "/")))
			if err != nil {
				return nil, err
			}
			found = append(found, versionFolder{
				address: address + "/", before: before, after: after, want: fill.Replace(variable), what: what,
				bucket: source == "" && published == EKSBucket,
			})
		}
	}
	return found, nil
}

// explain is Download.explain; for a missing file it also lists the existing
// versions.
func (f *Fetcher) explain(ctx context.Context, d Download, address string, err error) error {
	told := d.explain(address, err)
	if !isMissing(err) {
		return told
	}
	for _, s := range d.folders {
		if d.Mirror == "" && !s.bucket { // upstream's sites list no versions
			continue
		}
		names, err := f.names(ctx, s)
		switch {
		case err != nil:
			return fmt.Errorf("%w (listing its %s failed: %w)", told, s.what, err)
		case len(names) == 0:
			return fmt.Errorf("%w; the asset has no %s there", told, s.what)
		case !slices.Contains(names, s.want):
			return fmt.Errorf("%w; the existing %s are %s", told, s.what, nearest(names, s.want))
		}
	}
	if d.Mirror == "" && d.catalog != "" {
		return fmt.Errorf("%w; %s lists the versions", told, d.catalog)
	}
	return told
}

// NewestBuild returns the newest day on which EKS built a version of Kubernetes. source
// is a mirror or a folder; empty means EKS' bucket.
func (f *Fetcher) NewestBuild(ctx context.Context, kubernetes, source string) (string, error) {
	all, err := versionFolders(Table()[0].EKS.URL, strings.NewReplacer("{kubernetes}", kubernetes), source, EKSBucket)
	if err != nil {
		return "", err
	}
	for _, s := range all {
		names, err := f.names(ctx, s)
		if err != nil {
			return "", surface.Errorf("listing the %s in %s: %w; name the day with %s",
				s.what, Place(s.address), err, surface.Name("eks_build_date"))
		}
		if s.want == "{date}" && len(names) > 0 {
			return names[len(names)-1], nil
		}
		if !slices.Contains(names, s.want) {
			return "", fmt.Errorf("EKS has no build of Kubernetes %s; the existing versions are %s",
				kubernetes, nearest(names, kubernetes))
		}
	}
	return "", fmt.Errorf("EKS has no build of Kubernetes %s", kubernetes)
}

// nameForm is the form of a version or a date; a folder may contain other entries.
var nameForm = regexp.MustCompile(`^[0-9]+[.-][0-9]+[.-][0-9]+(-[0-9A-Za-z.-]+)?$`)

// names lists the versions in a folder, the oldest first.
func (f *Fetcher) names(ctx context.Context, s versionFolder) ([]string, error) {
	list := f.page
	switch {
	case isFile(s.address):
		list = folder
	case s.bucket:
		list = f.bucket
	}
	all, err := list(ctx, s.address)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range all {
		bare, ok := strings.CutPrefix(strings.TrimSuffix(name, "/"), s.before)
		bare, ends := strings.CutSuffix(bare, s.after)
		if ok && ends && nameForm.MatchString(bare) && !slices.Contains(names, bare) {
			names = append(names, bare)
		}
	}
	slices.SortFunc(names, compareVersions)
	return names, nil
}

// folder lists a folder of the running system.
func folder(_ context.Context, address string) ([]string, error) {
	name, err := filePath(address)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return show.Each(entries, os.DirEntry.Name), err
}

// pageLink is a link on a web server's page of a folder.
var pageLink = regexp.MustCompile(`(?i)<a[^>]+href=["']([^"'?#]+)["']`)

// page lists a folder from a web server's page of it.
func (f *Fetcher) page(ctx context.Context, address string) ([]string, error) {
	text, err := f.text(ctx, address)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, found := range pageLink.FindAllStringSubmatch(text, -1) {
		if name, err := url.PathUnescape(path.Base(found[1])); err == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// listing is the answer of S3's ListObjectsV2
// (https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html).
type listing struct {
	XMLName  xml.Name `xml:"ListBucketResult"`
	Prefixes []string `xml:"CommonPrefixes>Prefix"`
	Next     string   `xml:"NextContinuationToken"`
}

// mostPages bounds a listing: a page has a thousand names.
const mostPages = 20

// bucket lists a folder of a public S3 bucket.
func (f *Fetcher) bucket(ctx context.Context, address string) ([]string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address %s: %w", address, err)
	}
	query := url.Values{"list-type": {"2"}, "delimiter": {"/"}, "prefix": {strings.TrimPrefix(u.Path, "/")}}
	u.Path = "/"
	var names []string
	for range mostPages {
		u.RawQuery = query.Encode()
		text, err := f.text(ctx, u.String())
		if err != nil {
			return nil, err
		}
		var got listing
		if err := xml.Unmarshal([]byte(text), &got); err != nil {
			return nil, fmt.Errorf("reading the bucket's list: %w", err)
		}
		for _, p := range got.Prefixes {
			names = append(names, path.Base(p))
		}
		if got.Next == "" {
			return names, nil
		}
		query.Set("continuation-token", got.Next)
	}
	return nil, fmt.Errorf("the bucket's list has more than %d pages", mostPages)
}

// shown is how many versions a message contains.
const shown = 12

// nearest selects the names to show: those of the wanted minor version, if any, and
// the newest.
func nearest(names []string, want string) string {
	if len(names) == 0 {
		return "none"
	}
	major, rest, _ := strings.Cut(want, ".")
	minor, _, _ := strings.Cut(rest, ".")
	var alike []string
	for _, name := range names {
		if strings.HasPrefix(name, major+"."+minor+".") {
			alike = append(alike, name)
		}
	}
	if len(alike) == 0 {
		alike = names
	}
	more := ""
	if len(alike) > shown {
		alike, more = alike[len(alike)-shown:], " and older ones"
	}
	return strings.Join(alike, ", ") + more
}

// compareVersions orders versions, or dates such as 2025-11-13.
func compareVersions(a, b string) int {
	if semver.IsValid("v"+a) && semver.IsValid("v"+b) {
		return semver.Compare("v"+a, "v"+b)
	}
	return strings.Compare(a, b)
}
