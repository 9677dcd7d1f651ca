package userdata

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The values are those that Bottlerocket's own types refuse or take, by their tests.
func TestBottlerocketsTypes(t *testing.T) {
	for setting, c := range map[string]struct{ good, bad []string }{
		"kubernetes.max-pods":                        {[]string{"0", "110"}, []string{"-1", "4294967296", "'110'", "1.5"}},
		"kubernetes.log-level":                       {[]string{"2"}, []string{"256", "-1"}},
		"kubernetes.registry-qps":                    {[]string{"-1", "5"}, []string{"2147483648"}},
		"kubernetes.eviction-max-pod-grace-period":   {[]string{"0"}, []string{"-1"}},
		"kubernetes.image-gc-high-threshold-percent": {[]string{"85", "'85'"}, []string{"101", "'-1'", "'x'"}},
		"kubernetes.cluster-name":                    {[]string{"'a-b_c'"}, []string{"'-a'", "''"}},
		"kubernetes.bootstrap-token":                 {[]string{"'abcdef.0123456789abcdef'"}, []string{"'secret'"}},
		"kubernetes.cloud-provider":                  {[]string{"'aws'", "'external'", "''"}, []string{"'internal'"}},
		"kubernetes.container-log-max-size":          {[]string{"'10Mi'", "'129e6'", "'100m'"}, []string{"'12ki'", "'12%'", "'100Kiii'", "10"}},
		"kubernetes.container-log-monitor-interval":  {[]string{"'1h2m3s10ms'", "'1.5h3.5m'"}, []string{"'100'", "'9ns'", "'ten second'", "''", "'1m2h'"}},
		"kubernetes.shutdown-grace-period":           {[]string{"'30s'"}, []string{"'-5s'"}},
		"kubernetes.cpu-manager-reconcile-period":    {[]string{"'10s'"}, []string{"'x'"}},
		"kubernetes.image-minimum-gc-age":            {[]string{"'2m'"}, []string{"'2 minutes'"}},
		"kubernetes.cpu-manager-policy":              {[]string{"'static'", "'None'"}, []string{"'bad'"}},
		"kubernetes.memory-manager-policy":           {[]string{"'Static'", "'none'"}, []string{"'dynamic'"}},
		"kubernetes.memory-swap-behavior":            {[]string{"'LimitedSwap'"}, []string{"'all'"}},
		"kubernetes.reserved-cpus":                   {[]string{"'0-2,7'"}, []string{"'a'", "'0-'", "''"}},
		"kubernetes.cluster-domain":                  {[]string{"'cluster.local'"}, []string{"'.a'", "'foo/com'", "'123.123.123.123'"}},
		"kubernetes.cluster-dns-ip":                  {[]string{"'10.0.0.1'", "['10.0.0.1', '::1']"}, []string{"'dns'"}},
		"kubernetes.hostname-override":               {[]string{"'a.b'"}, []string{"'A'", "'a..b'", "'-a'"}},
		"kubernetes.node-taints.a":                   {[]string{"'a-b:NoSchedule'", "[':NoExecute']"}, []string{"'-a:NoSchedule'", "'a:'", "'a b:NoSchedule'"}},
		"kubernetes.node-taints.'a b'":               {nil, []string{"':NoSchedule'"}},
		"kubernetes.static-pods.my-pod.enabled":      {[]string{"true"}, []string{"'true'"}},
		"kubernetes.static-pods.my_pod.enabled":      {nil, []string{"true"}},
		"kubernetes.eviction-soft-grace-period":      {[]string{"{'memory.available' = '30s'}"}, []string{"{'storage.available' = '30s'}", "{'memory.available' = 'x'}"}},
		"kubernetes.memory-manager-reserved-memory":  {[]string{"{'0' = {enabled = true, memory = '1Gi'}}"}, []string{"{'0' = {enabled = true, memory = 'x'}}", "{'0' = {cpu = '1'}}"}},
		"dns.name-servers":                           {[]string{"['1.2.3.4', '::1']"}, []string{"['dns.example.com']", "'1.2.3.4'"}},
		"dns.search-list":                            {[]string{"['a.example']"}, []string{"['A']"}},
		"network.hostname":                           {[]string{"'a'"}, []string{"'a_b'"}},
		"network.https-proxy":                        {[]string{"'proxy:3128'"}, []string{"'a b'"}},
		"updates.version-lock":                       {[]string{"'latest'", "'v1.0.1-alpha'"}, []string{"'1.0'", "'hi'"}},
		"updates.seed":                               {[]string{"1"}, []string{"-1"}},
		"kernel.sysctl.'net.core.somaxconn'":         {[]string{"'1'"}, []string{"1"}},
		"kernel.sysctl.'../a'":                       {nil, []string{"'1'"}},
		"kernel.modules.xt_XT.allowed":               {[]string{"true"}, nil},
		"kernel.modules.'a|b'.allowed":               {nil, []string{"true"}},
		"bootstrap-commands.a.commands":              {[]string{"[['apiclient', 'set']]"}, []string{"[['touch', 'a']]", "[[]]", "['apiclient']"}},
	} {
		t.Run(setting, func(t *testing.T) {
			path := "settings." + setting + " = "
			whole := "settings.kubernetes.cluster-name = 'a'\n"
			if setting == "kubernetes.cluster-name" {
				whole = ""
			}
			whole += "settings.kubernetes.api-server = 'https://a'\nsettings.kubernetes.cluster-certificate = '" + authority + "'\n"
			for _, value := range c.good {
				assert.Empty(t, said(t, whole+path+value+"\n", ""), value)
			}
			for _, value := range c.bad {
				got := said(t, whole+path+value+"\n", "")
				assert.Contains(t, got, ": settings."+strings.Split(setting, ".")[0], value)
			}
		})
	}
}

func TestBottlerocketsInlineTables(t *testing.T) {
	const inline = "{cluster-name = 'a', api-server = 'https://a', cluster-certificate = 'YQ==', max-pods = %}"
	for _, form := range []string{
		"settings = {kubernetes = " + inline + "}\n", "settings.kubernetes = " + inline + "\n", "# mine\n[settings]\nkubernetes = " + inline + "\n",
		"[ settings ]\nkubernetes = " + inline + "\n", "\"settings\".kubernetes = " + inline + "\n", "['settings'.kubernetes]\n" + strings.NewReplacer("{", "", "}", "", ", ", "\n").Replace(inline) + "\n",
	} {
		report, err := Check([]byte(withAuthority(strings.Replace(form, "%", "110", 1))), "")
		require.NoError(t, err, form)
		assert.Equal(t, "bottlerocket", report.Family)
		assert.Empty(t, report.Problems, form)
		assert.Contains(t, said(t, strings.Replace(form, "%", "-1", 1), ""), "settings.kubernetes.max-pods: -1 must be from 0 to 4294967295", form)
	}
}

// Every row names a type that the check knows.
func TestSettingsTable(t *testing.T) {
	for line := range strings.Lines(settingsTable) {
		path, takes, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if path == "type" {
			words := strings.SplitN(takes, " ", 4)
			require.Len(t, words, 4, line)
			require.Contains(t, []string{"range", "pattern"}, words[1], line)
			require.Contains(t, valueTypes(), words[0])
			continue
		}
		takes = strings.TrimPrefix(takes, "[]")
		_, known := valueTypes()[takes]
		known = known || strings.Contains(takes, "|")
		assert.True(t, known || strings.Contains(" any bool text texts taints address addresses base64 url eviction reserved commands ", " "+takes+" "), line)
	}
}
