package nodeconfig

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

func zipped(text string) string { return string(testkit.Gzip(text)) }

const config = head + "spec:\n  kubelet:\n    config:\n"

// merges returns a document whose merge keys multiply an object's members: each level
// names the level before ten times.
func merges(levels, members int) string {
	var b strings.Builder
	b.WriteString(config + "      l0: &l0 {")
	for i := range members {
		fmt.Fprintf(&b, "k%d: 1, ", i)
	}
	b.WriteString("z: 1}\n")
	for l := range levels {
		fmt.Fprintf(&b, "      l%d: &l%d {<<: [%s]}\n", l+1, l+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d, ", l), 10), ", "))
	}
	return b.String()
}

// aliases returns a document in which each level names the level before nine times.
func aliases(levels int) string {
	text := config + "      a0: &a0 [lol]\n"
	for l := range levels {
		text += fmt.Sprintf("      a%d: &a%d [%s]\n", l+1, l+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", l), 9), ","))
	}
	return text
}

const (
	large  = "the document is too large: with aliases and merge keys followed it has more than 2048 KiB"
	nested = "the document nests more than 100 deep"
)

// bombs returns texts that would need much time or memory, and their errors.
func bombs() map[string]struct{ text, want string } {
	deep := func(open, inner, closing string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(closing, n)
	}
	part := "--X\nContent-Type: application/node.eks.aws\n\n"
	mail := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n"
	toml := func(text string) string { return head + "spec:\n  containerd:\n    config: |\n      " + text + "\n" }
	return map[string]struct{ text, want string }{
		"merge keys":              {merges(6, 50), large},
		"merge keys, many":        {merges(4, 5000), large},
		"aliases":                 {aliases(12), large},
		"one alias, long":         {config + "      a: &a " + strings.Repeat("x", 100_000) + "\n      b: [" + strings.Repeat("*a,", 40_000) + "]\n", large},
		"long names":              {config + "      ? " + strings.Repeat("x", 100_000) + "\n      : {" + strings.Repeat("a: 1, ", 100) + "z: 1}\n", large},
		"objects":                 {config + "      a: " + deep("{a: ", "1", "}", 5000) + "\n", nested},
		"lists":                   {config + "      a: " + deep("[", "", "]", 9000) + "\n", nested},
		"lists, too many":         {config + "      a: " + deep("[", "", "]", 100_000) + "\n", "reading the YAML: "},
		"JSON":                    {`{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": {"kubelet": {"config": {"a": ` + deep("[", "", "]", 200) + "}}}}", nested},
		"a wrong type, too large": {head + "spec:\n  kubelet:\n    flags: [" + strings.Repeat("a,", 30_000) + "]\n    config: {a: 1}\n", large},
		"many values":             {config + "      a: [" + strings.Repeat("1,", 120_000) + "]\n", large},
		"many unknown fields":     {head + strings.Repeat("x: 1\n", 30_000), "further problems are not listed"},
		"many documents":          {strings.Repeat("---\n# nothing\n", 101) + head, "there are more than 100 YAML documents"},
		"too much YAML":           {config + "      a: " + strings.Repeat("x", 256<<10) + "\n", "the NodeConfigs have more than 256 KiB"},
		"gzip":                    {zipped(strings.Repeat("#", 15<<20)), "the text has more than 1 MiB"},
		"gzip in gzip":            {zipped(zipped(strings.Repeat("#", 15<<20))), "reading the YAML: control characters are not allowed"},
		"base64":                  {base64.StdEncoding.EncodeToString([]byte(zipped(strings.Repeat("#", 15<<20)))), "the text has more than 1 MiB"},
		"gzip in each part":       {mail + strings.Repeat(part+base64.StdEncoding.EncodeToString([]byte(zipped(head+strings.Repeat("#", 100<<10))))+"\n", 20) + "--X--\n", "the NodeConfigs have more than 256 KiB"},
		"a long header":           {"MIME-Version: 1.0\nContent-Type: text/plain\n" + strings.Repeat(" a\n", 300_000), "cannot be read: mime: "},
		"parts in parts":          {mail + strings.Repeat("--X\nContent-Type: multipart/mixed; boundary=X\n\n", 10_000) + "--X--\n", "the message has more than 1000 MIME parts"},
		"parts in nested parts":   {mail + strings.Repeat("--X\nContent-Type: multipart/mixed; boundary=Y\n\n--Y\nContent-Type: multipart/mixed; boundary=X\n\n", 8000), " is missing, which ends the last part"},
		"deep parts":              {deepParts(9), "the MIME parts nest more than 8 deep"},
		"too many parts":          {mail + strings.Repeat("--X\nContent-Type: text/plain\n\n", 1001) + "--X--\n", "the message has more than 1000 MIME parts"},
		"TOML lists":              {toml("a = " + deep("[", "", "]", 30_000)), "line 1 of the TOML: toml: arrays and inline tables"},
		"TOML tables":             {toml("a = " + deep("{a = ", "1", "}", 10_000)), "the TOML nests more than 100 deep"},
		"TOML names":              {toml(strings.Repeat("a.", 30_000) + "a = 1"), "the TOML nests more than 100 deep"},
		"much TOML":               {toml("a = '" + strings.Repeat("a", 64<<10) + "'"), "the TOML has more than 64 KiB"},
		"an expression":           {head + "spec: {kubelet: {maxPodsExpression: " + strings.Repeat("1+", 100_000) + "1}}\n", "compiling the expression: the expression has 200001 bytes, but at most 4096 are allowed"},
		"an expression, nested":   {head + "spec: {kubelet: {maxPodsExpression: \"" + deep("(", "1", ")", 2000) + "\"}}\n", "expression recursion limit exceeded: 250"},
		"a number without end":    {config + "      a: .inf\n", "spec.kubelet.config.a: must be a finite number"},
		"a long flag":             {head + "spec: {kubelet: {flags: ['--a=" + strings.Repeat("a", 200_000) + `"']}}` + "\n", `" is not closed in`},
	}
}

// deepParts returns nested MIME parts, each with its own boundary.
func deepParts(deep int) string {
	text := "MIME-Version: 1.0\n"
	for i := range deep {
		text += fmt.Sprintf("Content-Type: multipart/mixed; boundary=B%d\n\n--B%d\n", i, i)
	}
	text += "\n"
	for i := range deep {
		text += fmt.Sprintf("--B%d--\n", deep-1-i)
	}
	return text
}

// smallBombs returns the bombs that a fuzzer can vary quickly, and small variants of
// the largest bombs.
func smallBombs() []string {
	texts := []string{merges(3, 3), merges(6, 1), aliases(5), config + "      a: &a {b: *a, <<: *a}\n", config + "      <<: [[*a], {<<: {a: 1}}]\n"}
	for _, b := range bombs() {
		if len(b.text) < 2<<10 {
			texts = append(texts, b.text)
		}
	}
	return texts
}

// All user data of 16 KiB is read in limited time and memory.
func TestBombsAreRefused(t *testing.T) {
	for name, c := range bombs() {
		forms := map[string]string{"plain": c.text, "gzip": zipped(c.text)}
		if strings.HasPrefix(c.text, "\x1f") || isBase64([]byte(c.text)) {
			delete(forms, "gzip") // only one level is decompressed
		}
		for form, text := range forms {
			t.Run(name+", "+form, func(t *testing.T) {
				config, _, err := Parse([]byte(text))
				if err == nil {
					err = config.Validate()
				}
				require.ErrorContains(t, err, c.want)
				assert.Less(t, len(err.Error()), 1<<20)
			})
		}
	}
}

// A value that exceeds the limit does not become a value of another type.
func TestTooLargeDocumentDoesNotPanic(t *testing.T) {
	for _, n := range []int{5, 6, 7} {
		_, err := Decode([]byte(merges(n, 10)))
		assert.ErrorContains(t, err, large)
	}
	_, err := Decode([]byte(head + "metadata: {a: [" + strings.Repeat("x,", 40_000) + "]}\nspec: {kubelet: {config: {a: 1}}, containerd: {baseRuntimeSpec: {a: 1}}}\n"))
	assert.ErrorContains(t, err, large)
	assert.Equal(t, 1, strings.Count(err.Error(), "\n")+1, "the error must appear once")
}

// Values that are written to files of other programs contain no line breaks or other
// control characters.
func TestControlCharactersAreRefused(t *testing.T) {
	for at, c := range map[string]struct {
		set  func(*Spec, string)
		good string
	}{
		"spec.cluster.name":                            {func(s *Spec, v string) { s.Cluster.Name = v }, "a"},
		"spec.cluster.apiServerEndpoint":               {func(s *Spec, v string) { s.Cluster.APIServerEndpoint = v }, "https://a.example"},
		"spec.cluster.cidr":                            {func(s *Spec, v string) { s.Cluster.CIDR = v }, "10.0.0.0/16"},
		"spec.cluster.id":                              {func(s *Spec, v string) { s.Cluster.ID = v }, "a"},
		"spec.kubelet.flags[0]":                        {func(s *Spec, v string) { s.Kubelet.Flags = Flags{"--a=" + v + "b"} }, "a"},
		"spec.instance.localStorage.mountPath":         {func(s *Spec, v string) { s.Instance.LocalStorage.MountPath = v }, "/a"},
		"spec.instance.environment.default.A":          {func(s *Spec, v string) { s.Instance.Environment = map[string]map[string]string{"default": {"A": v}} }, "a"},
		"spec.instance.network.nameservers[0]":         {func(s *Spec, v string) { s.Instance.Network.Nameservers = []string{v} }, "10.0.0.2#a"},
		"spec.instance.network.domains[0]":             {func(s *Spec, v string) { s.Instance.Network.Domains = []string{v} }, "a"},
		"spec.instance.localStorage.disabledMounts[0]": {func(s *Spec, v string) { s.Instance.LocalStorage.DisabledMounts = []string{v} }, "PodLogs"},
	} {
		valid := func(v string) error {
			config := NodeConfig{Spec: Spec{Cluster: Cluster{Name: "a", APIServerEndpoint: "https://a", CertificateAuthority: Base64("a"), CIDR: "10.0.0.0/16"}}}
			c.set(&config.Spec, v)
			return config.Validate()
		}
		require.NoError(t, valid(c.good), at)
		for _, bad := range []string{"\n", "\r", "\x00", "\x0b", "\x1b[2K", "\x7f", "\u0085"} {
			err := valid(c.good + bad)
			require.ErrorContains(t, err, at+": ", "%q", bad)
			assert.NotContains(t, err.Error(), bad, "the error must be printable")
		}
	}
}

// The mount path must not be in a folder that is itself on the instance store.
func TestMountPathOutsideTheInstanceStore(t *testing.T) {
	for path, want := range map[string]string{
		"/var/lib/kubelet":           `"/var/lib/kubelet" lies in /var/lib/kubelet, which lies on the instance store itself`,
		"/mnt/../var/log/pods/below": `"/mnt/../var/log/pods/below" lies in /var/log/pods, which lies on the instance store itself`,
		"/var/lib/kubelets":          "", "/var/lib": "", "": "",
	} {
		var p problems
		p.localStorage(LocalStorage{Strategy: RAID0, MountPath: path})
		if want == "" {
			assert.Empty(t, p)
			continue
		}
		require.Len(t, p, 1)
		assert.EqualError(t, p[0], "spec.instance.localStorage.mountPath: "+want)
	}
}

func TestNameservers(t *testing.T) {
	for server, want := range map[string]bool{
		"10.0.0.2": true, "10.0.0.2:53": true, "::1": true, "[::1]:53": true, "fe80::1%eth0": true, "10.0.0.2%eth0#dns.example": true, "1.1.1.1:853#one.one": true,
		"": false, "a": false, "10.0.0.2 10.0.0.3": false, "10.0.0.2#a\nDNSSEC=no": false, "10.0.0.2%e\nDNSSEC=no": false, "10.0.0.2#": false, "10.0.0.2%": false, "10.0.0.2#a b": false,
	} {
		assert.Equal(t, want, isNameserver(server), "%q", server)
	}
}

func TestEndpoints(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"https://A.gr7.eu-west-1.eks.amazonaws.com": true, "https://10.0.0.1:6443": true, "https://[fd00::1]:443": true, "https://a/path": true, "https://a_b": true,
		"http://a": false, "https://": false, "https://a b": false, "https://a\u2028b": false, "https://%e2%80%a8": false, "https://u:p@a": false,
		"https://a?b": false, "https://a#b": false, "https://[fe80::1%25e]:1": false, "https://a\\": false, "https://ü": false,
	} {
		assert.Equal(t, want, CheckEndpoint(endpoint) == nil, "%q", endpoint)
	}
}

// Messages quote a document on one printable line.
func TestMessagesArePrintable(t *testing.T) {
	_, err := Decode([]byte(head + "spec:\n  \"x\\nline 1: y\\e[2J\": 1\n  " + strings.Repeat("z", 1000) + ": 1\n"))
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 2)
	assert.Equal(t, `line 4: spec.x\nline 1: y\x1b[2J: unknown field; known are cluster, containerd, featureGates, instance, kubelet`, lines[0])
	assert.Less(t, len(lines[1]), 700)
}

// A text of exactly a limit is read, and one byte more is refused.
func TestLimitsAreInclusive(t *testing.T) {
	filled := func(text string, most int) string { return text + strings.Repeat("#", most-len(text)) }
	for name, c := range map[string]struct {
		begin string
		most  int
		read  func(text string) error
	}{
		"YAML":     {head, maxYAML, func(text string) error { return errorOf(Decode([]byte(text))) }},
		"TOML":     {"x = 1\n", maxTOML, func(text string) error { return errorOf(ReadTOML([]byte(text))) }},
		"text":     {"#", maxText, func(text string) error { _, _, err := Unwrap([]byte(text)); return err }},
		"unpacked": {"#", maxText, func(text string) error { _, _, err := Unwrap([]byte(zipped(text))); return err }},
		"object":   {head, maxYAML, func(text string) error { return errorOf(firstObject([]byte(text))) }},
	} {
		assert.NoError(t, c.read(filled(c.begin, c.most)), name)
		assert.Error(t, c.read(filled(c.begin, c.most+1)), name)
	}
	assert.NoError(t, errorOf(Decode([]byte(strings.Repeat("---\n", maxDocuments)+head))))
	assert.Error(t, errorOf(Decode([]byte(strings.Repeat("---\n", maxDocuments+1)+head))))
	three := form{3, show.Regexp("^a*$")}
	assert.True(t, three.fits("aaa"))
	assert.False(t, three.fits("aaaa"))
}

func errorOf[T any](_ T, err error) error { return err }

// Problems of a MIME message name the line that has them.
func TestMIMEProblemsNameTheirLine(t *testing.T) {
	const begin = "\n\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n"
	part := "--X\nContent-Type: text/plain\n\ntext\n"
	for text, want := range map[string]string{
		begin + "no part":        "[line 6: --X-- is missing, which ends the last part line 5: no part begins with --X on a line of its own]",
		begin + part:             "[line 10: --X-- is missing, which ends the last part]",
		begin + part + "--X":     "[line 10: --X-- should end the last part, not --X]",
		begin + part + "--X--":   "[]",
		begin + part + "--X--\n": "[]",
	} {
		_, problems := ReadMIME(text)
		assert.Equal(t, want, fmt.Sprint(problems), text)
	}
}

// A NodeConfig without a value contradicts none that has it.
func TestAMissingAuthorityContradictsNothing(t *testing.T) {
	var with, without, other NodeConfig
	with.Spec.Cluster.CertificateAuthority = []byte("ca")
	other.Spec.Cluster.CertificateAuthority = []byte("other")
	assert.Empty(t, with.Contradictions(&without))
	assert.Empty(t, without.Contradictions(&with))
	assert.Len(t, with.Contradictions(&other), 1)
}

// A later list replaces an earlier one, and an empty list nothing.
func TestLaterListsReplaceEarlierOnes(t *testing.T) {
	var c, later, empty NodeConfig
	c.Spec.Instance.Network.Domains = []string{"old.example"}
	later.Spec.Instance.Network.Domains = []string{"new.example"}
	require.NoError(t, c.Merge(&later))
	require.NoError(t, c.Merge(&empty))
	assert.Equal(t, []string{"new.example"}, c.Spec.Instance.Network.Domains)
}
