package diagnose

import (
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Class says how something failed, whatever the program calls it.
type Class string

// The classes of errors.
const (
	Refused    Class = "refused"
	TimedOut   Class = "no answer"
	Late       Class = "too late"
	Cut        Class = "cut off"
	NoRoute    Class = "no route"
	Unresolved Class = "name not resolved"
	Missing    Class = "missing"
	Denied     Class = "denied"
	Forbidden  Class = "not allowed"
	Malformed  Class = "malformed"
	Untrusted  Class = "not trusted"
	Unwelcome  Class = "not accepted"
	Busy       Class = "too many requests"
	Broken     Class = "server error"
	Exhausted  Class = "used up"
	Full       Class = "no space"
	Memory     Class = "no memory"
	Limit      Class = "limit reached"
	Taken      Class = "in use"
	Damaged    Class = "cannot be written or read"
	Foreign    Class = "for another processor"
	Crashed    Class = "crashed"
	Unfit      Class = "does not fit"
	Waits      Class = "waits" // if the line has no other class
)

// phrases are what programs write for each class. The first letter of a sentence is
// left out.
var phrases = map[Class][]string{
	Refused: {"onnection refused", "actively refused"},
	TimedOut: {"i/o timeout", "onnection timed out", "peration timed out", "handshake timeout", "awaiting headers",
		"onnect timeout on", "onnection timeout", "ead timeout on", "ould not connect to",
		"ax retries exceeded", "ax retries achieved"},
	Late:    {"imed out", "imed-out", "eadline exceeded", "eadline has elapsed"},
	Cut:     {"connection reset", "unexpected EOF", "broken pipe", `": EOF`},
	NoRoute: {"o route to host", "etwork is unreachable", "host is unreachable", "ost is down"},
	Unresolved: {"no such host", "server misbehaving", "ould not resolve host", "in name resolution", "ervice not known",
		"ailure resolving"},
	Missing: {"o such file or directory", "o such device", "o such process", "does not exist", "doesn't exist",
		" not found", "ailed to find ", "No package ", "Unable to locate package", "Unable to find a match",
		"Cannot find a valid",
		"rror: 404", "404 Not Found", "can't find ", "cannot find ", "FATAL: Module "},
	Denied: {"ermission denied", "peration not permitted", "ccessDenied", "ccess denied", "avc:  denied", "avc: denied",
		"EACCES", "EPERM"},
	Forbidden: {"is forbidden", "nauthorized", "ot authorized", "403 Forbidden", "no basic auth credentials", " rejected"},
	Malformed: {"unmarshal", "yaml: line", "yaml: did not", "yaml: inv", "toml: ", "yntax error",
		"unexpected EOF while looking", "unexpected end of ",
		"nvalid character", "unknown flag", "unknown field", "failed to parse", "cannot parse", "nvalid value",
		"nvalid argument", "nvalid configuration", "not a valid", "nvalid option", "nrecognized option",
		"unknown option", "unbound variable",
		"is not absolute"},
	Unwelcome: {"remote error: tls", "handshake failure"},
	Untrusted: {"x509: ", "ertificate verify failed", "ertificate verification failed", "SSL certificate problem"},
	Busy:      {"oo Many Requests", "oomanyrequests", "hrottl", "ate exceeded", "RequestLimitExceeded"},
	Broken:    {"Internal Server Error", "502 Bad", "503 Service", "504 Gateway"},
	Exhausted: {"temporarily unavailable"},
	Full:      {"o space left on device", "isk quota exceeded"},
	Memory:    {"annot allocate memory", "ut of memory", "oom-kill"},
	Limit:     {"oo many open files"},
	Taken:     {"ddress already in use", "Only one usage of each socket address"},
	Damaged:   {"ead-only file system", "nput/output error"},
	Foreign:   {"xec format error"},
	Crashed:   {"panic: ", "egmentation fault", "segfault at", "core dumped", "signal: killed", "rror on line"},
	Waits:     {"aiting for ", "aiting to "},
	Unfit: {"assign requested address", "not supported", "ndefined symbol", "ncompatible", "ismatch",
		"differs from", "nknown filesystem type"},
}

// Fact is what a line says about a failure: what failed and how.
type Fact struct {
	// Target is the kind of what failed, such as "API server", and Value which one.
	Target string `json:"target,omitempty"`
	Value  string `json:"value,omitempty"`
	Class  Class  `json:"class,omitempty"`
}

// String is the fact in words.
func (f Fact) String() string {
	return strings.Join(slices.DeleteFunc([]string{f.Target, f.Value, string(f.Class)},
		func(text string) bool { return text == "" }), " ")
}

// target is a kind of things that fail, and how lines name one. The first part of an
// expression is the value.
type target struct {
	kind string
	re   expressions
}

// targets are the kinds, the most particular first.
var targets = sync.OnceValue(func() (all []target) {
	const host = `([A-Za-z0-9._:\[\]-]+)`
	for _, one := range [][2]string{
		{"inotify", `(inotify|fsnotify)`},
		{"proxy", `proxyconnect tcp: dial tcp ` + host + `:`},
		{"name", `lookup ([A-Za-z0-9._-]+)`},
		{"name", `(?:resolve host:?|resolving) '?([A-Za-z0-9._-]+)`},
		{"instance metadata service", `((?:169\.254\.169\.254|fd00:ec2::254)[^ "\\]*)|ec2imds: (\w+)`},
		{"pod identity agent", `(169\.254\.170\.23[^ "\\]*)`},
		{"registry", `https?://([A-Za-z0-9._:-]+/v2/[^ "\\?]*)|\b(\d{12}\.dkr\.ecr[a-z0-9.-]+)|` +
			`(?:pull(?:ing)?(?: and unpack)? image|resolve reference|to do request: \w+) \\*"([^"\\ ]+)`},
		{"AWS API", `operation error ([A-Z][A-Za-z0-9 ]+: \w+)|calling the (\w+) operation|(s3://[^ ":,]+)|` +
			`perform:? ([a-z0-9-]+:\w+)|` +
			`https://((?:ec2|eks|sts|iam|ssm|s3|sqs|api\.ecr|logs|ssmmessages|ec2messages)[a-z0-9.-]*\.amazonaws\.com)`},
		{"kubelet", host + `:10250\b`},
		{"Service address", `https://(\[?(?:10|172|192\.168|100|198)[0-9.]*\]?:443)/`},
		{"API server", `https://([A-Za-z0-9.\[\]:-]+)/(?:apis?(?:[?"\\]|/v1/(?:nodes|pods|services|namespaces|` +
			`events|secrets|configmaps|endpoints|persistent)|/[a-z0-9.]+/v\d)|healthz|livez|readyz|version|openapi|v1-k3s|` +
			`v1-rke2|cacerts|ping)|` +
			`https://([A-Za-z0-9]+\.[a-z0-9]+\.[a-z0-9-]+\.eks\.amazonaws\.com)`},
		{"socket", `(?:unix(?://)?[ :]?|unix @->)(/[^ "\\:]+)|(/[A-Za-z0-9._/-]+\.sock)\b`},
		{"kernel setting", `(/proc/sys/[a-z0-9_/.-]+)`},
		{"cgroup", `(/sys/fs/cgroup[^ "\\:]*)|(\w+) cgroup\b`},
		{"network plugin", `plugin type=\\*"([a-z0-9-]+)|(/etc/cni/[^ "\\:]*|/opt/cni/[^ "\\:]*)`},
		{"kernel module", `[mM]odule '?((?:br_netfilter|nf|nft|ip|ip6|xt|iptable|ip6table)[a-z0-9_]*)\b`},
		{"other kernel module", `[mM]odule '?([a-z0-9_]+)`}, // overlay may be in the kernel
		{"package", `(?:No package|locate package|No match for argument:|Version '\S+' for) '?([A-Za-z0-9._+-]+)`},
		{"flag", `unknown (?:shorthand )?flag: '?(-[A-Za-z-]+)`},
		{"object", `\b((?:nodes|leases|csinodes|services|secrets|configmaps|pods|events)[a-z0-9.]*) \\*"?`},
		{"address", `dial (?:tcp|udp) ` + host + `: |[tT]o ` + host + `(?::| port )\d+`},
		{"address", `https?://([^ "\\]+)`},
		{"device", `(/dev/[a-z0-9/_-]+)`},
		{"file", `(?:open|stat|lstat|read|mkdir|chdir|exec|spawning|executable|execute|access|line \d+:|file|` +
			`directory:?|path) \\*['"]?(/[^ '"\\:,]+)`},
		{"file", `(?:^|[^A-Za-z0-9._/+-])(/[A-Za-z0-9._/+-]{3,})`}, // nodeadm/main.go:36 is a line of source
		{"interface", `interface '?([a-z0-9]+)`},
	} {
		all = append(all, target{one[0], compile(one[1])})
	}
	return all
})

// factMost is how much of a line around its innermost error is read for a fact, in
// bytes.
const factMost = 700

// said is what is read of a line for a fact.
type said struct {
	text  string
	class Class
}

// about is the part of a line around its innermost error, which has the class and ends at a
// place.
func about(line string, class Class, at int) said {
	text := line[max(0, at-factMost):min(len(line), at+factMost)]
	if i := strings.Index(text, "]: "); i >= 0 && at > factMost { // the syslog prefix names no target
		text = text[i:]
	}
	if len(text) < len(line) {
		text = strings.Clone(text) // and not the whole line
	}
	return said{text, class}
}

// fact reads the text.
func (s said) fact() Fact {
	f, text := Fact{Class: s.class}, s.text
	if f.Class == "" {
		return f
	}
	for _, one := range targets() {
		e := one.re.find(text)
		if e == nil {
			continue
		}
		m := e.FindStringSubmatch(text)
		f.Target = one.kind
		for _, value := range m[1:] {
			if value != "" {
				f.Value = show.Line(strings.TrimRight(value, ".,:"))
				break
			}
		}
		break
	}
	if f.Target == "address" {
		if host, port, err := net.SplitHostPort(f.Value); err == nil && net.ParseIP(host) != nil && (port == "443" ||
			port == "6443") {
			f.Target = "API server"
		}
	}
	return f
}
