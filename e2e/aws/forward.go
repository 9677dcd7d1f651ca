//go:build linux

package aws

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// names maps the names in tests to moto's random ids: "subnet-1" for
// "subnet-0f4…". They are replaced in calls to moto and in its responses.
type names struct {
	mutex    sync.RWMutex
	pairs    []string // a test's name and moto's name, alternating
	toMoto   map[string]string
	pattern  *regexp.Regexp
	fromMoto *strings.Replacer
}

func (n *names) add(name, real string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.toMoto == nil {
		n.toMoto = map[string]string{}
	}
	n.toMoto[name] = real
	n.pairs = append([]string{real, name}, n.pairs...) // the newest name wins
	n.fromMoto = strings.NewReplacer(n.pairs...)
	var all []string
	for name := range n.toMoto {
		all = append(all, regexp.QuoteMeta(name))
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	n.pattern = regexp.MustCompile(`\b(` + strings.Join(all, "|") + `)\b`)
}

// clone returns the same names for another world.
func (n *names) clone() *names {
	n.mutex.RLock()
	defer n.mutex.RUnlock()
	return &names{pairs: slices.Clone(n.pairs), toMoto: maps.Clone(n.toMoto), pattern: n.pattern, fromMoto: n.fromMoto}
}

func (n *names) in(text string) string {
	n.mutex.RLock()
	defer n.mutex.RUnlock()
	if n.pattern == nil {
		return text
	}
	return n.pattern.ReplaceAllStringFunc(text, func(name string) string { return n.toMoto[name] })
}

func (n *names) out(text []byte) []byte {
	n.mutex.RLock()
	defer n.mutex.RUnlock()
	if n.fromMoto == nil {
		return text
	}
	return []byte(n.fromMoto.Replace(string(text)))
}

// Name gives an object that moto has named in a response a test's own name. The
// object's id is the first match of the pattern's group. An object that had the
// name before loses it.
func (w *World) Name(name string, answer []byte, pattern string) {
	w.t.Helper()
	found := regexp.MustCompile(pattern).FindSubmatch(answer)
	require.NotNil(w.t, found, "%s in %s", pattern, answer)
	w.names.add(name, string(found[1]))
}

// Alias gives an object a further name. Responses use the newest name. Commands
// refuse names that do not have the form of AWS, such as i-1.
func (w *World) Alias(name, also string) {
	w.t.Helper()
	w.names.add(also, w.names.in(name))
}

// crashes maps actions on which moto crashes to the errors of AWS.
var crashes = map[string]string{"ec2:DescribeLaunchTemplateVersions": "InvalidLaunchTemplateId.VersionNotFound"}

// looks matches the actions that change nothing.
var looks = regexp.MustCompile(`^(Describe|Get|List)`)

// mends fixes values in moto's responses that the SDK refuses to read. moto
// writes times and numbers of EKS as strings, and some booleans as Python's
// words.
var mends = map[string][]struct {
	wrong *regexp.Regexp
	right string
}{
	"eks": {{regexp.MustCompile(`"(created|modified)At": *"[^"]*"`), `"${1}At": 1.8e9`}, {regexp.MustCompile(`"diskSize": *"(\d+)"`), `"diskSize": $1`}},
	"xml": {
		{regexp.MustCompile(`>True<`), `>true<`}, {regexp.MustCompile(`>False<`), `>false<`},
		{regexp.MustCompile(`<([eE]bsOptimized|[eE]nabled|replaceUnhealthyInstances|terminateInstancesWithExpiration)>(None)?<`), `<$1>false<`},
		{regexp.MustCompile(`>(\d{4}-\d\d-\d\d) (\d\d:\d\d)`), `>${1}T$2`},
	},
}

func mend(service string, text []byte) []byte {
	if service != "eks" {
		service = "xml"
	}
	for _, m := range mends[service] {
		text = m.wrong.ReplaceAll(text, []byte(m.right))
	}
	return text
}

// forward sends a call to moto and returns the response.
func (w *World) forward(ctx context.Context, call endpoint.Call) (*endpoint.Raw, error) {
	if w.light != nil {
		return w.lightly(call)
	}
	in := call.Request
	url := w.moto.url + w.names.in(in.URL.RequestURI())
	out, err := http.NewRequestWithContext(ctx, in.Method, url, strings.NewReader(w.names.in(call.Body)))
	if err != nil {
		return nil, fmt.Errorf("calling moto: %w", err)
	}
	for _, name := range []string{"Authorization", "Content-Type", "X-Amz-Target"} {
		out.Header.Set(name, in.Header.Get(name))
	}
	answer, err := http.DefaultClient.Do(out)
	if err != nil {
		return nil, fmt.Errorf("calling moto: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("calling moto: %w", err)
	}
	full := call.Service + ":" + call.Action
	switch {
	case answer.StatusCode < http.StatusInternalServerError:
	case crashes[full] != "":
		return nil, endpoint.Fail(crashes[full], "moto crashed")
	default:
		return nil, endpoint.Refuse("%s: moto crashed: %s", full, w.moto.last())
	}
	text = mend(call.Service, text)
	answer.Header.Del("Content-Length")
	return &endpoint.Raw{Status: answer.StatusCode, Header: answer.Header, Body: w.names.out(text)}, nil
}

// failed returns the error in a response, or nil.
func failed(raw *endpoint.Raw) error {
	if raw.Status < http.StatusBadRequest {
		return nil
	}
	field := func(pattern string) string {
		found := regexp.MustCompile(pattern).FindSubmatch(raw.Body)
		return string(bytes.Join(append([][]byte{nil}, found[min(1, len(found)):]...), nil))
	}
	return &endpoint.Failure{Status: raw.Status, Code: field(`<Code>([^<]*)<`), Message: field(`<Message>([^<]*)<`)}
}

// Do makes a call for the test in the world's region. The call is neither
// counted nor affected by faults. The parameters are names and values,
// alternating, or one JSON document. Actions of EKS are methods and paths:
// "eks:POST /clusters".
func (w *World) Do(action string, parameters ...string) []byte {
	w.t.Helper()
	return w.DoIn(cmp.Or(w.Region, Region), action, parameters...)
}

// DoIn makes the call of Do in another region.
func (w *World) DoIn(region, action string, parameters ...string) []byte {
	w.t.Helper()
	raw, err := w.try(region, action, parameters...)
	require.NoError(w.t, err, "%s %q", action, parameters)
	return raw
}

func (w *World) try(region, action string, parameters ...string) ([]byte, error) {
	service, name, _ := strings.Cut(action, ":")
	method, path, body := http.MethodPost, "/", strings.Join(parameters, "")
	header := http.Header{"Authorization": {fmt.Sprintf(
		"AWS4-HMAC-SHA256 Credential=%s/20260102/%s/%s/aws4_request, SignedHeaders=host, Signature=none", AccessKey, region, service)}}
	switch service {
	case "eks", "route53":
		method, path, _ = strings.Cut(name, " ")
		header.Set("Content-Type", map[string]string{"eks": "application/json", "route53": "application/xml"}[service])
	case "ssm", "kms":
		header.Set("X-Amz-Target", map[string]string{"ssm": "AmazonSSM.", "kms": "TrentService."}[service]+name)
		header.Set("Content-Type", "application/x-amz-json-1.1")
	default:
		form := url.Values{"Action": {name}, "Version": {calls()[service].Version}}
		for pair := range slices.Chunk(parameters, 2) {
			form.Set(pair[0], pair[1])
		}
		body = form.Encode()
		header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	in, err := http.NewRequestWithContext(w.ctx, method, path, nil)
	if err != nil {
		return nil, err
	}
	in.Header = header
	call := endpoint.Call{Service: service, Region: region, Action: name, Body: body, Request: in}
	if own := w.own()[action]; own != nil {
		answer, err := own(w.ctx, protocol(service), call)
		if raw, forwarded := answer.(*endpoint.Raw); forwarded && err == nil {
			return raw.Body, failed(raw)
		}
		if err != nil {
			return nil, err
		}
		return endpoint.Written(protocol(service), call, answer), nil
	}
	raw, err := w.forward(w.ctx, call)
	if err != nil {
		return nil, err
	}
	return raw.Body, failed(raw)
}
