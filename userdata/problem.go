package userdata

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Problem is one problem of user data.
type Problem struct {
	// Line counts from 1 in the file that was checked; 0 means the whole file.
	Line int `json:"line,omitempty"`
	// Field is the setting's path, a flag or a parameter; empty where it is none.
	Field string `json:"field,omitempty"`
	Text  string `json:"text"`
	// Warning marks user data that works, but probably not as it is meant.
	Warning bool `json:"warning,omitempty"`
}

// String is the problem as compilers print theirs, after the file's name.
func (p Problem) String() string {
	var parts []string
	if p.Line > 0 {
		parts = append(parts, fmt.Sprint(p.Line))
	}
	if p.Warning {
		parts = append(parts, "warning")
	}
	if p.Field != "" {
		parts = append(parts, p.Field)
	}
	return strings.Join(append(parts, p.Text), ": ")
}

// Report is what a check found.
type Report struct {
	// Family is the ID of the family that the user data was checked as.
	Family string `json:"family"`
	// Cluster holds the values of the cluster that the user data has.
	Cluster Cluster `json:"cluster"`
	// NamedByID says that the node's name is the instance ID, by the feature gate
	// InstanceIdNodeName.
	NamedByID bool      `json:"named_by_id,omitempty"`
	Problems  []Problem `json:"problems"`
	// Readers has a verdict for each image that reads NodeConfigs; empty for other
	// families.
	Readers []Reader `json:"readers,omitempty"`
}

// Reader is the verdict of an image about user data.
type Reader struct {
	// Image is ThisImage or AmazonsImage.
	Image string `json:"image"`
	Reads bool   `json:"reads"`
	// Reason says why the image does not read the user data.
	Reason string `json:"reason,omitempty"`
}

// The images that read NodeConfigs.
const (
	ThisImage    = "this image" // made by eksnode
	AmazonsImage = "Amazon's image"
)

// Failed reports whether there is a problem that is not a warning.
func (r Report) Failed() bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool { return !p.Warning })
}

// Cases has a case for each problem of a file, as SARIF and JUnit print them.
func (r Report) Cases(file string) []plan.Case {
	page := plan.About{Page: "join.md"}
	if len(r.Problems) == 0 {
		return []plan.Case{{ID: "user-data", Name: file, About: page, Text: "user data for " + r.Family}}
	}
	return show.Each(r.Problems, func(p Problem) plan.Case {
		c := plan.Case{ID: "user-data", Name: fmt.Sprintf("%s:%s", file, p), About: page, Level: plan.Fails,
			Text: p.Text, Place: plan.Place{File: file, Line: p.Line}}
		if p.Field != "" {
			c.Text = p.Field + ": " + p.Text
		}
		if p.Warning {
			c.Level = plan.Warns
		}
		return c
	})
}

// checker collects the problems of a part of a file.
type checker struct {
	*found
	// at is where the text that is checked is in the file.
	at position
}

// in checks a text at a position of the file.
func (c *checker) in(at position) *checker { return &checker{c.found, at} }

// within checks a text that begins after some lines of this one.
func (c *checker) within(lines int) *checker { return c.in(c.at.below(lines)) }

// found is what the checkers of all parts of a file know.
type found struct {
	report *Report
	// content is the user data before it was unwrapped.
	content []byte
	// taints are those that the node would register with.
	taints []string
	// maxPods are the limits of the node's pods that the user data sets, in order.
	maxPods []string
	// clusterElsewhere says that a tool adds the cluster, and joinsElsewhere that
	// the tool merges this user data with its own, which has the machine join.
	clusterElsewhere, joinsElsewhere bool
	// configs counts the NodeConfigs that were read.
	configs int
	// variables are those that scripts export, by name; "" where the value is unknown.
	variables map[string]string
	// starts counts the calls whose arguments for the kubelet were judged.
	starts int
	// files are those that the user data writes, by path.
	files map[string]*file
	// depth is how many shells with -c are being followed.
	depth int
}

type position struct {
	// before is the number of lines of the file before the text.
	before int
	// decoded says that the text was decoded or unpacked, so that all of it is at
	// one line of the file; inner is the number of lines before it in the decoded
	// text.
	decoded bool
	inner   int
}

func (p position) below(lines int) position {
	if p.decoded {
		p.inner += lines
	} else {
		p.before += lines
	}
	return p
}

// maxProblems bounds how many problems are listed.
const maxProblems = 200

func (c *checker) fail(line int, field, format string, args ...any) {
	c.either(false, line, field, fmt.Sprintf(format, args...))
}

func (c *checker) warn(line int, field, format string, args ...any) {
	c.either(true, line, field, fmt.Sprintf(format, args...))
}

func (c *checker) either(warning bool, line int, field, said string) {
	if c.at.decoded && line > 0 {
		said += fmt.Sprintf(" (line %d of the decoded text)", c.at.inner+line)
	}
	c.add(Problem{Line: c.line(line), Field: field, Text: said, Warning: warning})
}

// refused reports whether a field in a line, such as one with a value of another type, has
// been refused.
func (c *checker) refused(line int, field string) bool {
	return slices.ContainsFunc(c.report.Problems, func(p Problem) bool {
		return p.Line == c.line(line) && p.Field == field && !p.Warning
	})
}

func (c *checker) add(p Problem) {
	switch n := len(c.report.Problems); {
	case n < maxProblems:
		p.Field, p.Text = nodeconfig.Printable(p.Field), nodeconfig.Printable(p.Text)
		c.report.Problems = append(c.report.Problems, p)
	case n == maxProblems:
		c.report.Problems = append(c.report.Problems, Problem{Text: "further problems are not listed"})
	}
}

// full reports that further problems would not be listed, so that a search for
// them may end.
func (c *checker) full() bool { return len(c.report.Problems) > maxProblems }

// line is a line's number in the file; 0 is the file as a whole.
func (c *checker) line(line int) int {
	switch {
	case line == 0:
		return 0
	case c.at.decoded:
		return c.at.before + 1
	default:
		return c.at.before + line
	}
}

func message(parts ...Part) []byte {
	boundary := "EKSNODE"
	taken := func(p Part) bool { return strings.Contains(p.Content, "--"+boundary) }
	for n := 1; slices.ContainsFunc(parts, taken); n++ {
		boundary = fmt.Sprintf("EKSNODE%d", n)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)
	for _, p := range parts {
		fmt.Fprintf(&b, "--%s\n%s", boundary, p.encode())
	}
	fmt.Fprintf(&b, "--%s--\n", boundary)
	return []byte(b.String())
}

// encode is the part with its header. cloud-init garbles characters that are not
// ASCII, unless they are in base64; Amazon's nodeadm does not.
func (p Part) encode() string {
	text := strings.TrimRight(p.Content, "\n") + "\n"
	ascii := strings.IndexFunc(text, func(r rune) bool { return r > '~' }) < 0
	if ascii || strings.HasPrefix(p.ContentType, "application/") {
		return fmt.Sprintf("Content-Type: %s\n\n%s", p.ContentType, text)
	}
	if !strings.Contains(p.ContentType, "charset") {
		p.ContentType += `; charset="utf-8"`
	}
	var lines strings.Builder
	for line := range slices.Chunk([]byte(encode([]byte(text))), 76) {
		lines.WriteString(string(line) + "\n")
	}
	return fmt.Sprintf("Content-Type: %s\nContent-Transfer-Encoding: base64\n\n%s", p.ContentType, lines.String())
}

func scripts(texts []string) []Part {
	var parts []Part
	for _, text := range texts {
		if !strings.HasPrefix(text, "#!") {
			text = "#!/bin/bash\n" + text
		}
		parts = append(parts, Part{ContentType: shellMedia, Content: text})
	}
	return parts
}

// inlined separates the scripts that are parts of their own from those without
// #!, which are lines of another script.
func inlined(texts []string) (lines string, others []string) {
	for _, text := range texts {
		if strings.HasPrefix(text, "#!") {
			others = append(others, text)
			continue
		}
		lines += strings.TrimRight(text, "\n") + "\n"
	}
	return lines, others
}

// Part is a part of a MIME message.
type Part struct {
	ContentType string `json:"contentType"`
	Content     string `json:"content"`
}

// Proxy is a proxy for HTTP.
type Proxy struct {
	HTTP  string `json:"http,omitempty"`
	HTTPS string `json:"https,omitempty"`
	// None are the hosts that are reached without the proxy.
	None []string `json:"noProxy,omitempty"`
}

func (p Proxy) variables() map[string]string {
	all := map[string]string{"HTTP_PROXY": p.HTTP, "HTTPS_PROXY": p.HTTPS, "NO_PROXY": strings.Join(p.None, ",")}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

type (
	// LocalStorage is the use of the instance store.
	LocalStorage = nodeconfig.LocalStorage
	// Containerd is containerd's configuration.
	Containerd = nodeconfig.Containerd
	// Network is the resolution of names.
	Network = nodeconfig.Network
)

// environment is the description's environment with the proxy.
func (n Node) environment() map[string]map[string]string {
	all := n.Proxy.variables()
	if len(all) == 0 {
		return n.Environment
	}
	maps.Copy(all, n.Environment[nodeconfig.DefaultEnvironment]) // Validate refuses other values
	out := map[string]map[string]string{}
	maps.Copy(out, n.Environment)
	out[nodeconfig.DefaultEnvironment] = all
	return out
}

// without reports fields that a family cannot express, by their paths in a description.
func (n Node) without(why string, fields ...string) error {
	text, err := json.Marshal(n)
	var given map[string]any
	if err == nil {
		err = json.Unmarshal(text, &given)
	}
	errs := []error{err}
	for _, field := range fields {
		switch value := lookup(given, strings.Split(field, ".")...).(type) {
		case nil:
		case map[string]any:
			if len(value) > 0 {
				errs = append(errs, fmt.Errorf("%s: %s", field, why))
			}
		default:
			errs = append(errs, fmt.Errorf("%s: %s", field, why))
		}
	}
	return errors.Join(errs...)
}
