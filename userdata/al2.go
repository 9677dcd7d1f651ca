package userdata

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

const (
	// partsFolder is where scripts put further NodeConfigs for nodeadm.
	partsFolder = "/etc/eks/nodeadm.d"
	// bootstrapScript is where images have it.
	bootstrapScript = "/etc/eks/bootstrap.sh"
)

func encode(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// bootstrapArguments are those of bootstrap.sh, so that it need not call
// DescribeCluster.
func (n Node) bootstrapArguments() ([]string, error) {
	args := []string{n.Cluster.Name, "--apiserver-endpoint", n.Cluster.Endpoint, "--b64-cluster-ca", n.Cluster.CA}
	if n.Cluster.IPv6() {
		args = append(args, "--ip-family", "ipv6", "--service-ipv6-cidr", n.Cluster.CIDR)
	}
	if !n.Cluster.IPv6() || len(n.Cluster.DNSAddresses) > 0 {
		args = append(args, "--dns-cluster-ip", strings.Join(n.Cluster.dns(), ","))
	}
	if n.Cluster.Outpost != "" {
		args = append(args, "--enable-local-outpost", "true", "--cluster-id", n.Cluster.Outpost)
	}
	if n.LocalStorage.Strategy != "" {
		args = append(args, "--local-disks", strings.ToLower(n.LocalStorage.Strategy))
	}
	config, err := n.kubeletConfigFlags()
	if err != nil {
		return nil, err
	}
	if _, given := n.kubeletSettings()["maxPods"]; given {
		args = append(args, "--use-max-pods", "false")
	}
	if flags := append(n.kubeletFlags(), config...); len(flags) > 0 {
		args = append(args, "--kubelet-extra-args", strings.Join(flags, " "))
	}
	for _, name := range sortedNames(n.Bootstrap) {
		if !slices.Contains(args, "--"+name) {
			args = append(args, "--"+name, n.Bootstrap[name])
		}
	}
	_, err = arguments.Parse(args)
	return args, err
}

// bootstrapCommand is the call of bootstrap.sh with a line for each flag.
func (n Node) bootstrapCommand() (string, error) {
	args, err := n.bootstrapArguments()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(bootstrapScript)
	b.WriteString(" " + show.ShellQuote(args[0]))
	for flag := range slices.Chunk(args[1:], 2) {
		b.WriteString(" \\\n  " + flag[0] + " " + show.ShellQuote(flag[1]))
	}
	return b.String() + "\n", nil
}

// files are those that a machine with bootstrap.sh needs beside the call, and
// the commands that make them count.
func (n Node) files() (files []writtenFile, commands []string) {
	add := func(path, text string) { files = append(files, writtenFile{path, text}) }
	if n.Containerd.Config != "" {
		add("/etc/containerd/config.d/eksnode.toml", string(n.Containerd.Config))
	}
	services := n.environment()
	for _, service := range sortedNames(services) {
		folder := "/etc/systemd/system/" + strings.TrimSuffix(service, ".service") + ".service.d"
		if service == nodeconfig.DefaultEnvironment {
			folder = "/etc/systemd/system.conf.d"
		}
		add(folder+"/eksnode.conf", nodeconfig.SystemdEnvironment(service, services[service]))
	}
	if len(services) > 0 {
		commands = append(commands, "systemctl daemon-reload")
	}
	return files, commands
}

type writtenFile struct{ path, text string }

// command writes the file in a shell script.
func (f writtenFile) command() string {
	end := "EOF"
	for n := 1; strings.Contains(f.text, end); n++ {
		end = fmt.Sprintf("EOF%d", n)
	}
	return fmt.Sprintf("mkdir -p %s\ncat > %s <<'%s'\n%s\n%[3]s\n", path.Dir(f.path), f.path, end,
		strings.TrimRight(f.text, "\n"))
}

// bootstrapText is a script that prepares the machine and calls bootstrap.sh.
func (n Node) bootstrapText(before, after string) (string, error) {
	command, err := n.bootstrapCommand()
	if err != nil {
		return "", err
	}
	files, commands := n.files()
	var b strings.Builder
	b.WriteString("#!/bin/bash\nset -o errexit\n")
	for _, f := range files {
		b.WriteString(f.command())
	}
	for _, c := range commands {
		b.WriteString(c + "\n")
	}
	return b.String() + before + command + after, nil
}

func (n Node) withoutBootstrapSh() error {
	return n.without("bootstrap.sh has none", "maxPodsExpression", "nodeConfigs", "featureGates",
		"containerd.baseRuntimeSpec", "network", "localStorage.mountPath", "localStorage.disabledMounts", "settings")
}

func renderAL2(n Node, _ Family) ([]byte, error) {
	if err := n.withoutBootstrapSh(); err != nil {
		return nil, err
	}
	before, first := inlined(n.Pre)
	after, last := inlined(n.Post)
	script, err := n.bootstrapText(before, after)
	if err != nil {
		return nil, err
	}
	parts := append(scripts(first), n.Parts...)
	parts = append(parts, Part{ContentType: shellMedia, Content: script})
	return message(append(parts, scripts(last)...)...), nil
}

func isAL2(text string) bool {
	return isScript(strings.TrimPrefix(text, byteOrderMark)) || nodeconfig.IsMIME(text)
}

func isScript(text string) bool { return strings.HasPrefix(firstLine(text), "#!") }

func checkAL2(c *checker, text string) {
	called := 0
	for _, p := range c.parts(text) {
		called += c.cloudPart(p)
	}
	c.calls(called)
}

// calls reports a wrong number of calls of bootstrap.sh.
func (c *checker) calls(n int) {
	switch {
	case n == 0 && !c.joinsElsewhere:
		c.fail(0, "", "nothing calls %s, so the machine joins no cluster", bootstrapScript)
	case n > 1:
		c.warn(0, "", "bootstrap.sh is called %d times; only the first can choose the cluster", n)
	}
}

// bootstrap checks one call: the words before the program, which may set variables, and
// its arguments. Those that only the shell knows are taken for right.
func (c *checker) bootstrap(line int, before, words []word) {
	var args []string
	lines := map[string]int{}
	add := func(text string, at int) {
		args = append(args, text)
		if strings.HasPrefix(text, "--") {
			name, _, _ := strings.Cut(text, "=")
			lines[name] = at
		}
	}
	for i := 0; i < len(words); i++ {
		w := words[i]
		flag := strings.HasPrefix(w.text, "--")
		switch {
		case flag && strings.Contains(w.text, "=") && w.dynamic:
		case flag && !strings.Contains(w.text, "=") && i+1 < len(words) && words[i+1].dynamic:
			i++ // its value is known only there
		case flag && !strings.Contains(w.text, "=") && i+1 < len(words):
			add(w.text, w.line)
			add(words[i+1].text, words[i+1].line)
			i++
		case w.dynamic:
			add("known-only-there", w.line)
		default:
			add(w.text, w.line)
		}
	}
	variables := maps.Clone(c.variables)
	for _, w := range before {
		if name, value, found := strings.Cut(w.text, "="); found && variables != nil && !w.dynamic {
			variables[name] = value
		}
	}
	a, err := arguments.ParseWith(args, func(name string) string { return variables[name] })
	if err == nil {
		err = a.Validate()
	}
	if err != nil {
		c.arguments(line, lines, err)
	}
	if a == nil {
		return
	}
	for _, w := range a.Warnings {
		c.warn(line, "", "%s", w)
	}
	if warning, _ := nodeconfig.ReadEndpoint(a.Endpoint); warning != "" {
		c.warn(line, "--apiserver-endpoint", "%s", warning)
	}
	if ca, err := nodeconfig.Unbase64(a.CA); err == nil && len(ca) > 0 {
		at := cmp.Or(lines["--b64-cluster-ca"], line)
		c.authority(at, "--b64-cluster-ca", ca)
		if _, err := base64.StdEncoding.DecodeString(a.CA); err != nil {
			c.warn(at, "--b64-cluster-ca", "base64 on Amazon Linux 2 refuses the value: %v", err)
		}
	}
	extra := nodeconfig.Split(a.KubeletExtraArgs)
	c.report.Cluster = Cluster{
		Name: a.Cluster, Endpoint: a.Endpoint, CA: a.CA, CIDR: cmp.Or(a.ServiceIPv6CIDR, a.ServiceIPv4CIDR),
		DNSAddresses: dnsOf(a.DNS, extra), Outpost: a.ClusterID,
	}
	if a.Cluster == "known-only-there" {
		c.report.Cluster.Name = ""
	}
	c.scriptArguments(cmp.Or(lines["--kubelet-extra-args"], line), "--kubelet-extra-args", extra)
}

var flagError = show.Regexp(`^(unknown flag )?(-[^\s;:]+)(?: needs a value)?(.*)$`)

func (c *checker) arguments(line int, lines map[string]int, err error) {
	unknown := strings.Contains("\n"+err.Error(), "\nunknown flag ")
	for text := range strings.Lines(err.Error()) {
		text = strings.TrimSuffix(text, "\n")
		if unknown && strings.Contains(text, "does not belong here") {
			continue // it may be the unknown flag's value
		}
		parts := flagError().FindStringSubmatch(text)
		if parts == nil {
			c.fail(line, "", "%s", text)
			continue
		}
		at := cmp.Or(lines[parts[2]], line)
		switch {
		case parts[1] != "" && strings.HasPrefix(parts[3], " "):
			c.fail(at, parts[2], "quotes make one argument of several; remove the quotes")
		case parts[1] != "":
			c.fail(at, parts[2], "unknown flag%s", parts[3])
		default:
			c.fail(at, parts[2], "%s", strings.TrimLeft(strings.TrimPrefix(text, parts[2]), ": "))
		}
	}
}
