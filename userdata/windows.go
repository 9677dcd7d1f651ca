package userdata

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

const (
	windowsID    = "windows"
	windowsOpen  = "<powershell>"
	windowsClose = "</powershell>"
	// windowsScript is what EKS's images for Windows have in
	// C:\Program Files\Amazon\EKS.
	windowsScript = "Start-EKSBootstrap.ps1"
)

func renderWindows(n Node, _ Family) ([]byte, error) {
	switch { // https://docs.aws.amazon.com/eks/latest/userguide/windows-support.html
	case n.Cluster.IPv6():
		return nil, errors.New("cluster.cidr: EKS has no Windows nodes in clusters of IPv6")
	case n.Cluster.Outpost != "":
		return nil, errors.New("cluster.outpost: EKS has no Windows nodes on Outposts")
	}
	if err := n.without("Windows nodes have none", "maxPodsExpression", "nodeConfigs", "featureGates", "containerd",
		"parts", "bootstrap", "settings", "localStorage", "network"); err != nil {
		return nil, err
	}
	if len(n.Cluster.dns()) > 1 {
		return nil, errors.New("cluster.dns: Start-EKSBootstrap.ps1 takes one address")
	}
	config, err := n.kubeletConfigFlags()
	if err != nil {
		return nil, err
	}
	flags := append(n.kubeletFlags(), config...)
	lines := []string{windowsOpen}
	environment := n.environment()
	for _, service := range sortedNames(environment) {
		if service != nodeconfig.DefaultEnvironment {
			return nil, errors.New("environment." + service + ": on Windows, only default has an effect")
		}
		for _, name := range sortedNames(environment[service]) {
			lines = append(lines, fmt.Sprintf("[Environment]::SetEnvironmentVariable(%s, %s, 'Machine')",
				powershell(name), powershell(environment[service][name])))
		}
	}
	for _, text := range n.Pre {
		lines = append(lines, strings.TrimRight(text, "\n"))
	}
	lines = append(lines,
		`& "$env:ProgramFiles\Amazon\EKS\`+windowsScript+"\" `",
		"  -EKSClusterName "+powershell(n.Cluster.Name)+" `",
		"  -APIServerEndpoint "+powershell(n.Cluster.Endpoint)+" `",
		"  -Base64ClusterCA "+powershell(n.Cluster.CA)+" `",
		"  -DNSClusterIP "+powershell(n.Cluster.dns()[0])+" `",
		"  -ServiceCIDR "+powershell(n.Cluster.CIDR)+" `",
	)
	if len(flags) > 0 {
		lines = append(lines, "  -KubeletExtraArgs "+powershell(strings.Join(flags, " "))+" `")
	}
	lines = append(lines, "  3>&1 4>&1 5>&1 6>&1")
	for _, text := range n.Post {
		lines = append(lines, strings.TrimRight(text, "\n"))
	}
	lines = append(lines, windowsClose)
	return []byte(strings.Join(lines, "\n") + "\n"), nil
}

// powershell makes one word of a text, for PowerShell.
func powershell(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func isWindows(text string) bool {
	return strings.Contains(lowerASCII(text), windowsOpen) || launchTask().MatchString(text)
}

// launchTask is a script in EC2Launch v2's YAML
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2launch-v2-settings.html).
var launchTask = show.Regexp(`(?m)^[ -]*["']?task["']?: *["']?executeScript\b`)

// lowerASCII is a text with A to Z as a to z, of the same length in bytes:
// strings.ToLower makes invalid UTF-8 longer.
func lowerASCII(text string) string {
	lower := []byte(text)
	for i, b := range lower {
		if b >= 'A' && b <= 'Z' {
			lower[i] = b + 'a' - 'A'
		}
	}
	return string(lower)
}

func checkWindows(c *checker, text string) {
	lower := lowerASCII(text)
	begin := strings.Index(lower, windowsOpen)
	switch {
	case begin < 0 && launchTask().MatchString(text):
		c.launchTasks(text)
		return
	case begin < 0 && c.joinsElsewhere: // the tool adds the tags
		text, lower, begin = windowsOpen+text+windowsClose, windowsOpen+lower+windowsClose, 0
	case begin < 0:
		c.fail(1, "", "it must begin with %s", windowsOpen)
		return
	}
	begin += len(windowsOpen)
	before := strings.Count(text[:begin], "\n")
	end := strings.Index(lower[begin:], windowsClose)
	if end < 0 {
		c.fail(before+1, "", "%s is missing; without it nothing runs", windowsClose)
		end = len(text) - begin
	}
	c.needsWindowsCall(c.within(before).powershell(text[begin : begin+end]))
}

// powershell checks a script, and reports whether it joins the machine.
func (c *checker) powershell(script string) (called bool) {
	commands, open := powershellCommands(script)
	if open > 0 {
		c.fail(open, "", "a quote is not closed, so PowerShell does not run the script")
	}
	for i, command := range commands {
		c.continued(command, parameterLine(), "%s begins a command of its own; the line before must end in ", "`")
		switch first := command[0]; {
		case first.quoted && namesScript(first) && len(command) > 1:
			called = true
			c.fail(first.line, "", "PowerShell takes a path in quotes for text: write & before the quotes")
		case unquotedPath(command):
			called = true
			c.fail(first.line, "", "the path of %s has spaces: put it in quotes, with & before", windowsScript)
		case callsBootstrap(command):
			called = true
			c.windowsCall(command, splatted(commands[:i], command))
		}
	}
	return called
}

// launchTasks checks the scripts of EC2Launch v2's YAML.
func (c *checker) launchTasks(text string) {
	top, _ := c.topNode(text, yaml.MappingNode, "EC2Launch v2 reads an object with version and tasks")
	if top == nil {
		return
	}
	if !slices.Contains([]string{"1.0", "1.1", "1"}, strictjson.Text(top, "version")) {
		c.fail(top.Line, "version", "must be 1.0 or 1.1, or EC2Launch v2 does not run the tasks")
	}
	called := false
	if tasks := strictjson.Child(top, "tasks"); tasks != nil {
		for _, task := range tasks.Content {
			inputs := strictjson.Child(task, "inputs")
			if strictjson.Text(task, "task") != "executeScript" || inputs == nil {
				continue
			}
			for _, input := range inputs.Content {
				content := strictjson.Child(input, "content")
				if content != nil && strictjson.Text(input, "type") == "powershell" {
					called = c.in(c.scalar(content)).powershell(content.Value) || called
				}
			}
		}
	}
	c.needsWindowsCall(called)
}

func (c *checker) needsWindowsCall(called bool) {
	if !called && !c.joinsElsewhere {
		c.fail(0, "", "nothing calls %s, so the machine joins no cluster", windowsScript)
	}
}

var (
	parameterLine  = show.Regexp(`^-[A-Za-z]{2,}$`)
	parameterStart = show.Regexp(`(?s)^-[^-]`)
)

// namesScript reports whether a word names the script: by its file's name, or by
// the variable of AWS's example and eksctl.
func namesScript(w word) bool {
	name := strings.ToLower(w.text)
	return strings.HasSuffix(name, strings.ToLower(windowsScript)) || name == "$eksbootstrapscriptfile"
}

// callsBootstrap recognizes the call by the script, or by the parameter that the
// script cannot do without.
func callsBootstrap(command []word) bool {
	first := strings.ToLower(command[0].text)
	runners := []string{"&", ".", "powershell", "powershell.exe", "pwsh", "pwsh.exe"}
	if !slices.Contains(runners, first) && !strings.HasSuffix(first, strings.ToLower(windowsScript)) {
		return false
	}
	return slices.ContainsFunc(command, func(w word) bool {
		return namesScript(w) || strings.HasPrefix(strings.ToLower(w.text), "-eksclustername")
	})
}

// parameter returns the parameter that PowerShell takes a name for: a prefix suffices if
// no other parameter begins with it.
func parameter(name string) (known string, ambiguous []string) {
	for _, p := range vocabulary().Windows {
		if strings.EqualFold(p, name) {
			return p, nil
		}
		if strings.HasPrefix(strings.ToLower(p), strings.ToLower(name)) {
			ambiguous = append(ambiguous, p)
		}
	}
	if len(ambiguous) == 1 {
		return ambiguous[0], nil
	}
	return "", ambiguous
}

// windowsCall checks a call. table are the entries of the hash table of a splatted call.
func (c *checker) windowsCall(command, table []word) {
	given := map[string]word{}
	// What stands before the script is PowerShell's own.
	first := max(0, slices.IndexFunc(command, func(w word) bool {
		return namesScript(w) || strings.EqualFold(w.text, "-eksclustername")
	}))
	command = append(slices.Clip(command), table...)
	for i := first; i < len(command) && !c.full(); i++ {
		w := command[i]
		name, value, attached := strings.Cut(w.text, ":")
		if !strings.HasPrefix(name, "-") || len(name) < 2 {
			continue
		}
		known, ambiguous := parameter(name[1:])
		if len(ambiguous) > 0 {
			c.fail(w.line, name, "the name is short for several parameters: %s", strings.Join(ambiguous, ", "))
			continue
		}
		if known == "" {
			c.fail(w.line, name, "%s takes no such parameter; %s", windowsScript,
				show.Suggest(name[1:], vocabulary().Windows))
			continue
		}
		if _, twice := given[known]; twice {
			c.fail(w.line, "-"+known, "it is given twice")
		}
		v := word{text: value, line: w.line, dynamic: w.dynamic}
		if !attached {
			if i+1 == len(command) || parameterStart().MatchString(command[i+1].text) {
				c.fail(w.line, "-"+known, "its value is missing")
				continue
			}
			i++
			v = command[i]
		}
		given[known] = v
	}
	splat := slices.ContainsFunc(command, func(w word) bool { return strings.HasPrefix(w.text, "@") })
	if _, there := given["EKSClusterName"]; !there && (!splat || table != nil) { // a hash table may hold the name
		c.fail(command[0].line, "-EKSClusterName", "it is missing")
	}
	c.windowsValues(given)
}

func (c *checker) windowsValues(given map[string]word) {
	check := func(name string, wrong func(string) error) {
		if w, there := given[name]; there && !w.dynamic {
			if err := wrong(w.text); err != nil {
				c.fail(w.line, "-"+name, "%v", err)
			}
		}
	}
	check("EKSClusterName", nodeconfig.CheckClusterName)
	check("APIServerEndpoint", nodeconfig.CheckEndpoint)
	check("Base64ClusterCA", func(v string) error {
		ca, err := nodeconfig.Unbase64(v)
		if err != nil || len(ca) == 0 {
			return errors.New("the value is not base64")
		}
		c.authority(given["Base64ClusterCA"].line, "-Base64ClusterCA", ca)
		return nil
	})
	check("DNSClusterIP", func(v string) error {
		if _, err := netip.ParseAddr(v); err != nil {
			return fmt.Errorf("%q is no address", v)
		}
		return nil
	})
	check("ServiceCIDR", func(v string) error {
		switch prefix, err := netip.ParsePrefix(v); {
		case err != nil:
			return fmt.Errorf("%q is no network such as 10.100.0.0/16", v)
		case prefix.Addr().Is6():
			return errors.New("EKS has no Windows nodes in clusters of IPv6")
		}
		return nil
	})
	check("ContainerRuntime", func(v string) error {
		if v != "containerd" {
			return errors.New("containerd is the only container runtime since Kubernetes 1.24")
		}
		return nil
	})
	value := func(name string) string {
		if given[name].dynamic {
			return ""
		}
		return given[name].text
	}
	extra := nodeconfig.Split(value("KubeletExtraArgs"))
	c.report.Cluster = Cluster{
		Name: value("EKSClusterName"), Endpoint: value("APIServerEndpoint"), CA: value("Base64ClusterCA"),
		CIDR: value("ServiceCIDR"), DNSAddresses: dnsOf(strings.Fields(value("DNSClusterIP")), extra),
	}
	c.scriptArguments(given["KubeletExtraArgs"].line, "-KubeletExtraArgs", extra)
}
