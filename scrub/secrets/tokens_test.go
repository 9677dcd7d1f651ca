//go:build linux

package secrets

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// TestTokensOfEveryIssuerAreFound has a file for each token that shows its issuer.
// {h32} means 32 hexadecimal digits; see filled for the others.
func TestTokensOfEveryIssuerAreFound(t *testing.T) {
	cases := []struct{ kind, shape string }{
		{"a 1Password key", `A3-{U6}-{U11}-{U5}-{U5}-{U5}`},
		{"a 1Password key", `ops_eyJ{A250}`},
		{"an Adobe client secret", `p8e-{A32}`},
		{"an Airtable token", `pat{A14}.{h64}`},
		{"an Alibaba Cloud access key", `LTAI{A20}`},
		{"an Artifactory key", `AKCp{A69}`},
		{"an Artifactory key", `cmVmd{A59}`},
		{"an Atlassian token", `ATATT3{A186}`},
		{"an Authress access key", `authress_{A20}.{A5}.acc_{A20}.{A60}`},
		{"an Amazon Bedrock key", `ABSK{A128}`},
		{"an Amazon Bedrock key", `bedrock-api-key-{A60}`},
		{"an Azure client secret", `{A3}8Q~{A34}`},
		{"a ClickHouse Cloud key", `4b1d{A38}`},
		{"a Clojars token", `CLOJARS_{A60}`},
		{"a Cloudflare origin CA key", `v1.0-{h24}-{h146}`},
		{"a Databricks token", `dapi{h32}`},
		{"a Defined Networking key", `dnkey-{A26}-{A52}`},
		{"a Doppler token", `dp.pt.{A43}`},
		{"a Duffel token", `duffel_live_{A43}`},
		{"a Dynatrace token", `dt0c01.{U24}.{U64}`},
		{"an EasyPost key", `EZAK{A54}`},
		{"a Facebook token", `EAAC{A100}`},
		{"a Facebook token", `1234567890123456%7C{A27}`},
		{"a Flutterwave key", `FLWSECK_TEST-{h12}`},
		{"a Fly.io token", `fm2_{A100}`},
		{"a Frame.io token", `fio-u-{A64}`},
		{"a Freemius key", `'secret_key' => 'sk_{A29}'`},
		{"a GitLab token", `GR1348941{A20}`},
		{"a GitLab token", `_gitlab_session={h32}`},
		{"a Grafana token", `eyJrIjoi{A80}`},
		{"a Harness token", `pat.{A22}.{A24}.{A20}`},
		{"a Heroku token", `HRKU-AA{A58}`},
		{"a Hugging Face token", `api_org_{l34}`},
		{"an Infracost key", `ico-{A32}`},
		{"a secret of 42's API", `s-s4t2ud-{h64}`},
		{"a signed token (JWT)", `ZXlKaGJHY2lPaU{A80}`},
		{"a Linear key", `lin_api_{A40}`},
		{"a MaxMind key", `{A6}_{A29}_mmk`},
		{"a Microsoft Teams webhook", `https://corp.webhook.office.com/webhookb2/{h36}@{h36}/IncomingWebhook/{h32}/{h36}`},
		{"a New Relic key", `NRJS-{h19}`},
		{"a New Relic key", `NRII-{A32}`},
		{"a Notion token", `ntn_12345678901{A35}`},
		{"a NuGet password", `<add key="ClearTextPassword" value="{A12}" />`},
		{"an Octopus Deploy key", `API-{U26}`},
		{"an OpenShift token", `sha256~{A43}`},
		{"a key of a language model's service", `sk-{A20}T3BlbkFJ{A20}`},
		{"a key of a language model's service", `pplx-{A48}`},
		{"a PlanetScale token", `pscale_tkn_{A43}`},
		{"a Postman key", `PMAK-{h24}-{h34}`},
		{"a Prefect key", `pnu_{A36}`},
		{"a Pulumi token", `pul-{h40}`},
		{"a ReadMe key", `rdme_{A70}`},
		{"a RubyGems key", `rubygems_{h48}`},
		{"a Scalingo token", `tk-us-{A48}`},
		{"a Brevo key", `xkeysib-{h64}-{A16}`},
		{"a SettleMint token", `sm_pat_{A16}`},
		{"a Shippo token", `shippo_live_{h40}`},
		{"a Shopify token", `shpat_{h32}`},
		{"a Sidekiq key", `BUNDLE_GEMS__CONTRIBSYS__COM="{h8}:{h8}"`},
		{"a Sourcegraph token", `sgp_{h16}_{h40}`},
		{"a Square token", `EAAA{A60}`},
		{"a Square token", `sq0atp-{A22}`},
		{"a Twilio key", `SK{h32}`},
		{"a Vault token", `s.{A24}`},
		{"a key of a service", `datadog_app_key: {h40}`},
		{"a key of a service", `"sonar.login": "{A40}"`},
		{"a key of a service", `<herokuApiKey>{h8}-{h4}-{h4}-{h4}-{h12}</herokuApiKey>`},
		{"a key of a service", `jira={A24}`},
		{"a key of a service", `var theirLobKey = "live_{h35}"`},
	}
	files, want := map[string]string{}, []string{}
	for i, c := range cases {
		file := fmt.Sprintf("srv/%d", i)
		files[file] = "first line\nvalue " + filled(t, c.shape) + "\n"
		want = append(want, fmt.Sprintf("/%s: line 2 contains %s", file, c.kind))
	}
	h := hosttest.Root(t, files)
	got := audit(t, h)
	for i, w := range want {
		assert.Contains(t, got, w, "%s", cases[i].shape)
	}
	for _, p := range append(tokenPatterns(), servicePattern()) {
		assert.True(t, slices.ContainsFunc(cases, func(c struct{ kind, shape string }) bool { return c.kind == p.Kind }), "%s has no row in this test", p.Kind)
	}
}

// Many first lines of secrets in one file do not slow the search down: attempts
// are limited.
func TestAttemptsPerPatternAreLimited(t *testing.T) {
	tail := "\n" + strings.Repeat("a", 64)
	p := Pattern{Kind: "a", Hints: []string{"begin"}, Re: rule.Expression(`begin`), then: rule.Expression(`^\na{64}`)}
	for _, c := range []struct {
		before string
		want   []int64
	}{
		{strings.Repeat("begin\n", thenMost-1), []int64{thenMost}}, {strings.Repeat("begin\n", thenMost), nil},
		{strings.Repeat("begin ", thenMost/20), []int64{1}}, {strings.Repeat("begin ", thenMost), nil},
	} {
		assert.Equal(t, c.want, scanned(t, []Pattern{p}, c.before+"begin"+tail)["a"])
	}
}

// scanned returns the lines with matches by kind.
func scanned(t *testing.T, patterns []Pattern, text string) map[string][]int64 {
	t.Helper()
	lines := map[string][]int64{}
	s := scan{ctx: t.Context(), words: NewIndex(patterns), name: "/x", text: true, found: func(p *Pattern, at int64) { lines[p.Kind] = append(lines[p.Kind], at) }}
	require.NoError(t, s.read(strings.NewReader(text)))
	return lines
}

// FuzzIndex checks that a search for all patterns finds the same as a search for
// each pattern.
func FuzzIndex(f *testing.F) {
	patterns := append(All(), HostPatterns...)
	patterns = slices.DeleteFunc(patterns, func(p Pattern) bool { return p.Re == nil })
	for i := range patterns {
		patterns[i].Kind += strconv.Itoa(i)
	}
	for _, seed := range []string{"", "a", "AK" + "IA" + strings.ToUpper(fill(16)), "x\nSK" + strings.Repeat("0a1b", 8), "1234567890123456|" + fill(27), "kind: Secret\ndata:\n  a: " + fill(12), "datadog_key: " + fill(32), "\xff\x80hv" + "s." + fill(30), "curl -u a:" + fill(9) + "\r\n", "i-0123456789abcdef0", "DB_PASSWORD=" + fill(12), strings.Repeat("x", 600) + " token: " + fill(20)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		together := scanned(t, patterns, text)
		for _, p := range patterns {
			assert.Equal(t, scanned(t, []Pattern{p}, text)[p.Kind], together[p.Kind], p.Kind)
		}
	})
}

// filled replaces a shape's placeholders with letters and digits.
func filled(t *testing.T, shape string) string {
	t.Helper()
	return regexp.MustCompile(`\{\w\d+\}`).ReplaceAllStringFunc(shape, func(blank string) string {
		n, err := strconv.Atoi(blank[2 : len(blank)-1])
		assert.NoError(t, err)
		switch blank[1] {
		case 'h':
			return strings.Repeat("0a1b", n/4+1)[:n]
		case 'U':
			return strings.ToUpper(fill(n))
		case 'l':
			return strings.Repeat("aB", n/2)
		default:
			return fill(n)
		}
	})
}
