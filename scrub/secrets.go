package scrub

import (
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// tokenPatterns are tokens with a documented beginning and length. Each row
// names the documentation of the issuer.
func tokenPatterns() []pattern {
	return []pattern{
		{kind: "a 1Password key", hints: []string{"a3- ", "ops_eyj "}, // 1Password: Secret Key, service accounts
			re: expression(`\bA3-[A-Z0-9]{6}-([A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(-[A-Z0-9]{5}){3}\b|\bops_eyJ[A-Za-z0-9+/]{200,}`)},
		{kind: "an Adobe client secret", hints: []string{"p8e- "}, re: expression(`\bp8e-[A-Za-z0-9_-]{32}`)},                                                                                                      // Adobe Developer: OAuth credentials
		{kind: "an Airtable token", hints: []string{"pat "}, run: 14, re: expression(`\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b`)},                                                                                      // Airtable: personal access tokens
		{kind: "an Alibaba Cloud access key", text: true, hints: []string{"ltai"}, run: 12, re: expression(`\bLTAI[A-Za-z0-9]{12,20}\b`), digit: true},                                                             // Alibaba Cloud: AccessKey pairs
		{kind: "an Artifactory key", text: true, hints: []string{"akcp", "cmvmd"}, re: expression(`\bAKCp[A-Za-z0-9]{69}\b|\bcmVmd[A-Za-z0-9]{59}\b`)},                                                             // JFrog: API keys, reference tokens
		{kind: "an Atlassian token", hints: []string{"atatt3 ", "atctt3 "}, re: expression(`\bAT[AC]TT3[A-Za-z0-9_=-]{100,}`)},                                                                                     // Atlassian: API tokens
		{kind: "an Authress access key", hints: []string{".acc_ ", ".acc- "}, re: expression(`\b(sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[a-z0-9A-Z]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,}`)}, // Authress: service clients
		{kind: "an Amazon Bedrock key", hints: []string{"absk ", "bedrock-api-key- "}, re: expression(`\b(ABSK[A-Za-z0-9+/]{100,}|bedrock-api-key-[A-Za-z0-9+/]{28,})`)},                                           // Amazon Bedrock: API keys
		{kind: "an Azure client secret", hints: []string{"q~ "}, re: expression(`(^|[^A-Za-z0-9_~.-])[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}($|[^A-Za-z0-9_~.-])`)},                                            // Microsoft Entra: application secrets
		{kind: "a ClickHouse Cloud key", text: true, hints: []string{"4b1d"}, run: 38, re: expression(`\b4b1d[A-Za-z0-9]{38}\b`)},                                                                                  // ClickHouse Cloud: API keys
		{kind: "a Clojars token", hints: []string{"clojars_ "}, re: expression(`(?i)\bCLOJARS_[a-z0-9]{60}`)},                                                                                                      // Clojars: deploy tokens
		{kind: "a Cloudflare origin CA key", hints: []string{"v1.0- "}, re: expression(`\bv1\.0-[0-9a-f]{24}-[0-9a-f]{100,}`)},                                                                                     // Cloudflare: Origin CA keys
		{kind: "a Databricks token", hints: []string{"dapi "}, run: 32, re: expression(`\bdapi[0-9a-f]{32}`)},                                                                                                      // Databricks: personal access tokens
		{kind: "a Defined Networking key", hints: []string{"dnkey- "}, re: expression(`\bdnkey-[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}`)},                                                                            // Defined Networking: API keys
		{kind: "a Doppler token", hints: []string{"dp. "}, re: expression(`\bdp\.(pt|st|ct|sa|scim|audit)\.([a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}`)},                                                              // Doppler: token formats
		{kind: "a Duffel token", hints: []string{"duffel_ "}, re: expression(`\bduffel_(test|live)_[A-Za-z0-9_=-]{43}`)},                                                                                           // Duffel: access tokens
		{kind: "a Dynatrace token", hints: []string{"dt0 "}, re: expression(`\bdt0[a-z]\d\d\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}`)},                                                                                   // Dynatrace: token format
		{kind: "an EasyPost key", text: true, hints: []string{"ezak", "eztk"}, re: expression(`\bEZ[AT]K[A-Za-z0-9]{54}\b`)},                                                                                       // EasyPost: authentication
		{kind: "a Facebook token", hints: []string{"eaac ", "eaam ", "facebook "}, re: expression(`\bEAA[CM][A-Za-z0-9]{100,}`)},                                                                                   // Meta: access tokens
		{kind: "a Facebook token", text: true, hints: []string{"|", "%7c"}, run: 27, re: expression(`\b\d{15,16}(\||%7[cC]|%)[A-Za-z0-9_-]{27,40}($|[^A-Za-z0-9_-])`)},                                             // Meta: app access tokens
		{kind: "a Flutterwave key", text: true, hints: []string{"flwsec", "flwpub"}, re: expression(`\bFLW(SECK|PUBK)(_TEST)?-[A-Za-z0-9]{12}`)},                                                                   // Flutterwave: API keys
		{kind: "a Fly.io token", hints: []string{"fo1_ ", "fm1a_ ", "fm1r_ ", "fm2_ "}, re: expression(`\b(fo1_[A-Za-z0-9_-]{43}|fm(1[ar]|2)_[A-Za-z0-9+/]{100,})`)},                                               // Fly.io: access tokens
		{kind: "a Frame.io token", hints: []string{"fio-u- "}, re: expression(`\bfio-u-[A-Za-z0-9_=-]{64}`)},                                                                                                       // Frame.io: developer tokens
		{kind: "a Freemius key", text: true, hints: []string{"secret_key"}, re: expression(`["']secret_key["']\s*=>\s*["']sk_[^\s"']{20,}["']`)},                                                                   // Freemius: SDK integration
		{kind: "a GitLab token", text: true, hints: []string{"gr1348941", "_gitlab_session="}, re: expression(`\bGR1348941[A-Za-z0-9_-]{20}|_gitlab_session=[0-9a-z]{32}`)},                                        // GitLab: token overview
		{kind: "a Grafana token", hints: []string{"eyjrijoi "}, re: expression(`\beyJrIjoi[A-Za-z0-9]{60,}`)},                                                                                                      // Grafana: API keys
		{kind: "a Harness token", hints: []string{"pat. ", "sat. "}, re: expression(`\b[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}`)},                                                              // Harness: API keys
		{kind: "a Heroku token", hints: []string{"hrku- "}, re: expression(`\bHRKU-[A-Za-z0-9_-]{36,}`)},                                                                                                           // Heroku: OAuth tokens
		{kind: "a Hugging Face token", hints: []string{"api_org_ "}, re: expression(`\bapi_org_[A-Za-z]{34}`)},                                                                                                     // Hugging Face: organization tokens
		{kind: "an Infracost key", hints: []string{"ico- "}, re: expression(`\bico-[A-Za-z0-9]{32}\b`)},                                                                                                            // Infracost: API keys
		{kind: "a secret of 42's API", hints: []string{"s-s4t2 "}, re: expression(`\bs-s4t2(ud|af)-[0-9a-f]{64}`)},                                                                                                 // 42: API applications
		{kind: "a signed token (JWT)", hints: []string{"zxlk "}, re: expression(`\bZXlK[A-Za-z0-9+/_-]{52,}`)},                                                                                                     // RFC 7519, in base64 once more
		{kind: "a Linear key", hints: []string{"lin_api_ "}, re: expression(`\blin_api_[A-Za-z0-9]{40}`)},                                                                                                          // Linear: personal API keys
		{kind: "a MaxMind key", hints: []string{"_mmk "}, re: expression(`\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b`)},                                                                                                // MaxMind: license keys
		{kind: "a Microsoft Teams webhook", hints: []string{"webhook.office.com "}, re: expression(`\bwebhook\.office\.com/webhookb2/[0-9A-Za-z@-]{50,}/IncomingWebhook/[0-9A-Za-z]{32}/`)},                        // Microsoft Teams: incoming webhooks
		{kind: "a New Relic key", hints: []string{"nrjs- ", "nrii- "}, re: expression(`\bNRJS-[0-9a-f]{19}|\bNRII-[A-Za-z0-9_-]{32}`)},                                                                             // New Relic: API keys
		{kind: "a Notion token", hints: []string{"ntn_ "}, re: expression(`\bntn_\d{11}[A-Za-z0-9]{35}`)},                                                                                                          // Notion: authorization
		{kind: "a NuGet password", text: true, hints: []string{`password"`}, re: expression(`(?i)<add\s+key="(ClearText)?Password"\s+value="[^"%]{8,}"`)},                                                          // NuGet: nuget.config reference
		{kind: "an Octopus Deploy key", text: true, hints: []string{"api-"}, re: expression(`\bAPI-[A-Z0-9]{26,32}\b`), digit: true},                                                                               // Octopus Deploy: API keys
		{kind: "an OpenShift token", hints: []string{"sha256~ "}, re: expression(`\bsha256~[A-Za-z0-9_-]{43}`)},                                                                                                    // OpenShift: OAuth access tokens
		{kind: "a key of a language model's service", hints: []string{"t3blbkfj ", "pplx- "}, re: expression(`\bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|\bpplx-[A-Za-z0-9]{48}`)},                                // OpenAI, Perplexity: API keys
		{kind: "a PlanetScale token", hints: []string{"pscale_ "}, re: expression(`(?i)\bpscale_(tkn|oauth|pw)_[\w=.-]{32,}`)},                                                                                     // PlanetScale: service tokens, passwords
		{kind: "a Postman key", hints: []string{"pmak- "}, re: expression(`\bPMAK-[A-Za-z0-9]{24}-[A-Za-z0-9]{34}`)},                                                                                               // Postman: API keys
		{kind: "a Prefect key", hints: []string{"pnu_ ", "pnb_ "}, re: expression(`\bpn[ub]_[A-Za-z0-9]{36}\b`)},                                                                                                   // Prefect: API keys
		{kind: "a Pulumi token", hints: []string{"pul- "}, re: expression(`\bpul-[0-9a-f]{40}\b`)},                                                                                                                 // Pulumi: access tokens
		{kind: "a ReadMe key", hints: []string{"rdme_ "}, re: expression(`\brdme_[A-Za-z0-9]{70}`)},                                                                                                                // ReadMe: API keys
		{kind: "a RubyGems key", hints: []string{"rubygems_ "}, re: expression(`\brubygems_[0-9a-f]{48}`)},                                                                                                         // RubyGems: API keys
		{kind: "a Scalingo token", hints: []string{"tk-us- "}, re: expression(`\btk-us-[A-Za-z0-9_-]{48}`)},                                                                                                        // Scalingo: API tokens
		{kind: "a Brevo key", hints: []string{"xkeysib- "}, re: expression(`\bxkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}`)},                                                                                              // Brevo: API keys
		{kind: "a SettleMint token", hints: []string{"sm_aat_ ", "sm_pat_ ", "sm_sat_ "}, re: expression(`\bsm_[aps]at_[A-Za-z0-9]{16}`)},                                                                          // SettleMint: access tokens
		{kind: "a Shippo token", hints: []string{"shippo_ "}, re: expression(`\bshippo_(live|test)_[0-9A-Fa-f]{40}`)},                                                                                              // Shippo: authentication
		{kind: "a Shopify token", hints: []string{"shpat_ ", "shpca_ ", "shppa_ ", "shpss_ "}, re: expression(`\bshp(at|ca|pa|ss)_[0-9A-Fa-f]{32}`)},                                                               // Shopify: access tokens
		{kind: "a Sidekiq key", text: true, hints: []string{"contribsys__com"}, re: expression(`(?i)contribsys__com[\s:=>?,"']+[0-9a-f]{8}:[0-9a-f]{8}`)},                                                          // Sidekiq: commercial installation
		{kind: "a Sourcegraph token", hints: []string{"sgp_ "}, re: expression(`\bsgp_(([0-9A-Fa-f]{16}|local)_)?[0-9A-Fa-f]{40}`)},                                                                                // Sourcegraph: access tokens
		{kind: "a Square token", text: true, hints: []string{"eaaa", "sq0"}, re: expression(`\b(EAAA[A-Za-z0-9_-]{22,60}|sq0(atp|csp)-[A-Za-z0-9_-]{22,60})\b`), digit: true},                                      // Square: access tokens
		{kind: "a Twilio key", text: true, hints: []string{"sk"}, run: 32, re: expression(`SK[0-9A-Fa-f]{32}($|[^0-9A-Fa-f])`)},                                                                                    // Twilio: API keys
		{kind: "a Vault token", text: true, hints: []string{"s."}, run: 24, re: expression(`(^|[^A-Za-z0-9_.])s\.[A-Za-z0-9]{24}\b`), digit: true},                                                                 // Vault before 1.10: tokens
	}
}

// services lists services whose keys are recognized by the name before them. By
// the services' documentation, the name and an equals sign or a colon stand
// before each key.
func services() []string {
	return []string{
		"adafruit", "adobe", "airtable", "algolia", "alibaba", "artifactory", "asana", "atlassian", "beamer", "bintray", "bitbucket", "bittrex",
		"cloudflare", "co_api_key", "co-api-key", "coapikey", "codecov", "cohere", "coinbase", "confluence", "confluent", "contentful",
		"datadog", "discord", "droneci", "dropbox", "etsy", "facebook", "fastly", "finicity", "finnhub", "flickr", "freshbooks",
		"gitter", "gocardless", "heroku", "hubspot", "intercom", "jfrog", "jira", "kraken", "kucoin", "launchdarkly", "linear", "linked_in", "linked-in", "linkedin",
		"lob", "looker", "mailchimp", "mailgun", "mapbox", "mattermost", "meraki", "message_bird", "message-bird", "messagebird", "netlify", "new_relic", "new-relic", "newrelic", "nytimes",
		"okta", "plaid", "pagerduty", "private_ai", "private-ai", "privateai", "rapidapi", "sendbird", "sentry", "snyk", "sonar", "squarespace", "sumo",
		"telegram", "travis", "twilio", "twitch", "twitter", "typeform", "xray", "yandex", "zendesk",
	}
}

// servicePattern matches a key by the name before it. A short value, or a value
// of several words, counts only if the name says that it is a key.
func servicePattern() pattern {
	const (
		sign   = `["'\x60]?[\s\])]*[:=|?,>]{1,4}[\s"'\x60=]{0,5}`
		value  = `([a-z0-9]{2,11}[.:])?[A-Za-z0-9_=%+-][A-Za-z0-9_=%/+-]{13,}`
		random = `([A-Za-z0-9]{1,64}[_.:-]){0,4}([A-Za-z0-9]{14,}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})`
	)
	wordStart := regexp.MustCompile(`(^|[_-])[a-z]`)
	var inside []string // such as theirDatadogKey
	for _, name := range services() {
		camel := wordStart.ReplaceAllStringFunc(name, func(start string) string { return strings.ToUpper(start[len(start)-1:]) })
		inside = append(inside, camel, strings.ToUpper(camel))
	}
	names := `((^|[^A-Za-z])(` + strings.Join(services(), "|") + `)|(?-i:[a-z](` + strings.Join(inside, "|") + `)))`
	return pattern{
		kind: "a key of a service", text: true, hints: services(), digit: true,
		sample: expression(`(?i)example|(sha(1|256|384|512)|md5|digest|checksum|commit|revision|version)[\w.-]*` + sign),
		re:     expression(`(?i)` + names + `([\w.-]*(key|token|secret|passw|auth|cred|login|[_-]id|id["'\s:=])[\w.-]*` + sign + value + `|[\w.-]{0,24}` + sign + random + `)`),
	}
}

func secretRules() []Rule {
	return []Rule{
		{
			ID: "secrets-left", Phase: Inspect, Groups: []string{"secrets"}, Verb: Report,
			Paths: []string{"/**"}, Owner: "anybody",
			Why:         "everyone who can start the image can read its keys, tokens and passwords",
			Regenerated: "nothing", Source: "AWS: guidelines for shared Linux AMIs",
			look: secretsLeft,
		},
		{
			ID: "host-ids-left", Phase: Inspect, Groups: []string{"identity"}, Verb: Report,
			Paths: searchedForIDs, Owner: "anybody",
			Why:         "with an instance ID or a machine's UUID in a file, every node claims to be the builder machine",
			Regenerated: "its owner", Source: "amazon-eks-ami nodeadm, udev-net-manager",
			look: hostIDsLeft,
		},
	}
}

// environments are files whose lines become environment variables of programs.
var environments = either(
	named("*.env", ".env*", "env", "environment*", "*.service", "*.sh", "profile", "*bashrc", ".profile", ".bash_profile", ".zshrc", ".zshenv"),
	below("/etc/default", "/etc/sysconfig", "/etc/environment.d", "/etc/systemd", "/usr/lib/systemd", "/etc/eks", "/etc/conf.d"),
)

// keyFollows matches a PEM or OpenPGP block after its first line, also inside a
// string of a program. The first line alone is in every program that reads such
// keys.
var keyFollows = expression(`^(\\+[rnt]|[\s"'+#>|\\,.])*((Proc-Type|DEK-Info|Version|Comment|Hash|Charset):[^\n]*?(\\+[rn]|[\s"'+#>|\\,.])+)*[A-Za-z0-9+/=]{32}`)

// secretData matches the data of a Secret up to the first value.
const secretData = `(\n\s+[^\n]*)*?\n\s+"?[\w.-]+"?:\s*([|>][-+]?\s+)?["']?[A-Za-z0-9+/]{10,}`

// The issuers document the form of most tokens. The other tokens are recognized
// by a name before an equals sign.
var secretPatterns = []pattern{
	{kind: "a private key", hints: []string{"private key "}, re: expression(`-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----`),
		then: keyFollows},
	{kind: "a private key of PuTTY", hints: []string{"putty-user-key-file "}, re: expression(`^PuTTY-User-Key-File-\d+:`)},
	{kind: "a private key of age", hints: []string{"age-secret-key- "}, re: expression(`\bAGE-SECRET-KEY-1[0-9A-Z]{20,}`)},
	{kind: "a private key of WireGuard", text: true, hints: []string{"privatekey", "presharedkey"}, re: expression(`(?i)^\s*(PrivateKey|PresharedKey)\s*=\s*[A-Za-z0-9+/]{43}=`)},
	{kind: "a key of OpenVPN", hints: []string{"openvpn static key "}, re: expression(`-----BEGIN OpenVPN (Static key|tls-crypt-v2 client key)`),
		then: expression(`^[^\n]*\n([A-Za-z0-9+/=]{32})`)},
	{kind: "a private JSON Web Key", text: true, hints: []string{`"d"`}, re: expression(`"d"\s*:\s*"[A-Za-z0-9_+/=-]{40,}"`), digit: true},
	{kind: "a key of DNS", text: true, hints: []string{"privatekey:"}, re: expression(`^PrivateKey:\s*[A-Za-z0-9+/]{40,}`)},
	{kind: "a key of DNS", text: true, hints: []string{"secret"}, re: expression(`^\s*secret\s+"[A-Za-z0-9+/]{20,}={0,2}"\s*;`)},
	{kind: "a key of IPsec", text: true, hints: []string{"psk", "eap", "xauth"}, in: named("*.secrets"), re: expression(`^[^#]*:\s*(PSK|EAP|XAUTH)\s+("[^"]+"|0[xs]\S+)`)},
	{kind: "a wireless network's key", text: true, hints: []string{"psk", "password"}, in: either(below("/etc/NetworkManager", "/etc/wpa_supplicant", "/var/lib/iwd"), networkFiles),
		re: expression(`^\s*(psk|(leap-)?password|wep-key\d|PreSharedKey|Passphrase)\s*=\s*"?[^\s"#]{8,}`)},
	{kind: "a key of SNMP", text: true, hints: []string{"createuser", "usmuser"}, re: expression(`^\s*(?i:createUser)\s+(-e\s+\S+\s+)?\S+\s+(MD5|SHA)\S*\s+\S+|^usmUser\s.*\s0x[0-9a-f]{20,}`)},
	{kind: "an AWS access key", hints: []string{"akia ", "asia ", "abia ", "acca ", "a3t "}, run: 16, re: expression(`\b(AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[0-9A-Z]{16}\b`), sample: expression(`EXAMPLE`)},
	{kind: "an AWS secret key", text: true, hints: []string{"secret"}, sample: expression(`EXAMPLE`),
		re: expression(`(?i)(aws[\w.-]*secret|secret[_-]?(access[_-]?)?key|secretkey)[\w-]*["'\])]*\s*(=>|[:=>,]|\s)\s*["']?[A-Za-z0-9/+]{40}([^A-Za-z0-9/+=]|$)`)},
	{kind: "an AWS session token", hints: []string{"iqojb3jpz2lu ", "fwogzxivyxdz ", "session_token ", "sessiontoken "},
		sample: expression(`EXAMPLE`), re: expression(`\b(IQoJb3JpZ2lu|FwoGZXIvYXdz)[A-Za-z0-9/+=]{64,}|(?i:session_?token["']?\s*[:=]\s*["']?[A-Za-z0-9/+=]{100,})`)},
	{kind: "registry credentials", text: true, hints: []string{`"auth"`, "identitytoken", "registrytoken"},
		re: expression(`"(auth|identitytoken|registrytoken)"\s*:\s*"[A-Za-z0-9+/=_.-]{8,}"`)},
	{kind: "registry credentials", text: true, hints: []string{"auth", "password", "token"}, in: below("/etc/containerd", "/etc/soci-snapshotter-grpc", "/etc/crio", "/etc/containers"),
		re: expression(`(?i)^\s*(auth|password|identity_?token)\s*=\s*["'][^"'\s]{4,}["']`)},
	{kind: "a kubeconfig's client key", text: true, hints: []string{"client-key-data"}, re: expression(`\bclient-key-data["']?\s*:\s*["']?[A-Za-z0-9+/=]{20,}`)},
	{kind: "a kubeconfig's token", text: true, hints: []string{"token"}, re: expression(`(^|[\s{,"'])token["']?\s*:\s*["']?[A-Za-z0-9._-]{16,}`), digit: true},
	{kind: "a cluster's join token", text: true, hints: []string{"token"}, re: expression(`(?i)token["']?[=:\s]\s*["']?[a-z0-9]{6}\.[a-z0-9]{16}\b`), digit: true},
	{kind: "a signed token (JWT)", hints: []string{"eyj "}, re: expression(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)},
	{kind: "a GitHub token", hints: []string{"ghp_ ", "gho_ ", "ghu_ ", "ghs_ ", "ghr_ ", "github_pat_ "}, re: expression(`\b(gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{30})`)},
	{kind: "a GitLab token", hints: []string{"glpat- ", "gldt- ", "glrt- ", "glcbt- ", "glptt- ", "glagent- ", "glsoat- ", "glft- ", "glffct- ", "glimt- ", "gloas- "},
		re: expression(`\bgl(pat|dt|rt|cbt|ptt|agent|soat|ft|ffct|imt|oas)-[A-Za-z0-9_-]{20}`)},
	{kind: "a Slack token", hints: []string{"xox ", "xapp- "}, re: expression(`\b(xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{20,})`)},
	{kind: "a Slack webhook", hints: []string{"hooks.slack "}, re: expression(`hooks\.slack(-gov)?\.com/(services|workflows|triggers)/[A-Z0-9]{6,}/[A-Z0-9]{6,}/[A-Za-z0-9]{16,}`)},
	{kind: "a Tailscale key", hints: []string{"tskey- "}, re: expression(`\btskey-(auth|client|api|scim|webhook)-[A-Za-z0-9]{8,}-?[A-Za-z0-9]+`)},
	{kind: "a Grafana token", hints: []string{"glsa_ ", "glc_ "}, re: expression(`\b(glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}|glc_[A-Za-z0-9+/=]{32,})`), digit: true},
	{kind: "a New Relic key", hints: []string{"nrak- ", "nral ", "ffal "}, re: expression(`\bNRAK-[A-Z0-9]{27}\b|\b[0-9a-z]{36}(NR|FF)AL\b`)},
	{kind: "a Stripe key", hints: []string{"k_live_ ", "k_test_ ", "k_prod_ "}, re: expression(`\b[sr]k_(live|test|prod)_[A-Za-z0-9]{10,}`), digit: true},
	{kind: "a SendGrid key", hints: []string{"sg. "}, re: expression(`\bSG\.[A-Za-z0-9=_.-]{66}($|[^A-Za-z0-9=_.-])`)},
	{kind: "a DigitalOcean token", hints: []string{"_v1_ "}, re: expression(`\bdo[opr]_v1_[0-9a-f]{64}\b`)},
	{kind: "a Sentry token", hints: []string{"sntrys_ ", "sntryu_ "}, re: expression(`\bsntry(s_ey[A-Za-z0-9+/=_]{40,}|u_[0-9a-f]{64})`)},
	{kind: "a key of a language model's service", hints: []string{"sk- ", "hf_ "}, re: expression(`\b(sk-(ant|proj|svcacct|admin)-[A-Za-z0-9_-]{24,}|hf_[A-Za-z]{34}\b)`)},
	{kind: "a Google API key", hints: []string{"aiza "}, re: expression(`\bAIza[A-Za-z0-9_-]{35}\b`)},
	{kind: "an npm token", hints: []string{"npm_ ", "_authtoken "}, re: expression(`\bnpm_[A-Za-z0-9]{36}\b|_authToken\s*=\s*[^\s$]{16,}`)},
	{kind: "a PyPI token", hints: []string{"pypi-ageich "}, re: expression(`\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{20,}`)},
	{kind: "a Docker Hub token", hints: []string{"dckr_ "}, re: expression(`\bdckr_[po]at_[A-Za-z0-9_-]{20,}`)},
	{kind: "a Vault token", hints: []string{"hvs. ", "hvb. ", "hvr. "}, re: expression(`\bhv[sbr]\.[A-Za-z0-9_-]{24,}`)},
	{kind: "a HCP Terraform token", hints: []string{".atlasv1. "}, re: expression(`\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{40,}`)},
	{kind: "an Azure storage key", hints: []string{"accountkey= "}, re: expression(`(?i)\bAccountKey=[A-Za-z0-9+/]{86}==`)},
	{kind: "an API key", text: true, hints: []string{"api_key", "apikey", "api-key", "app_key", "appkey", "license_key", "licensekey", "integration_key", "routing_key", "service_key", "ingest_key"}, re: expression(`(?i)(\b|_)(api|app|license|integration|routing|service|ingest)[_-]?key["']?\s*[:=]\s*["']?[0-9a-f]{32,40}([^0-9a-f]|$)`), digit: true},
	{kind: "credentials of an HTTP header", text: true, hints: []string{"authorization", "bearer"}, digit: true,
		re: expression(`(?i)\b(authorization["']?\s*[:=]\s*[\[\s]*["']?(basic|token|bearer|ssws|apikey|splunk)\s+[A-Za-z0-9._~+/=-]{8,}|bearer\s+[A-Za-z0-9._~+/-]{20,})`)},
	{kind: "a password in a URL", text: true, hints: []string{"://"}, re: expression(`(?i)\b[a-z][a-z0-9+.-]*://([^\s/:@"'<>$%{}]|%[0-9a-f]{2})*:([^\s/@"'<>$%{}]|%[0-9a-f]{2}){3,}@[a-z0-9.\[-]+`),
		sample: expression(`(?i):([^@]*example[^@]*|\*+|x+|\.+|(my|your)?-?(pass(word|wd)?|pwd)|bar|xyzzy)@`)},
	{kind: "a password of netrc", text: true, hints: []string{"password"}, re: expression(`(?i)\b(machine\s+\S+|default)\s+login\s+\S+\s+password\s+\S+`)},
	{kind: "a password of netrc", text: true, hints: []string{"password"}, in: either(named(".netrc", "_netrc"), below("/etc/apt/auth.conf.d", "/etc/apt/auth.conf")), re: expression(`^\s*password\s+\S+`)},
	{kind: "a password", text: true, hints: []string{"pass"}, in: named("*.cnf", "*[cC]redentials*", "*.cred*", "*smb*", "*cifs*"), re: expression(`(?i)^\s*pass(word)?\s*=\s*["']?[^\s"'#]+`)},
	{kind: "a password's hash", text: true, hints: []string{"$1$", "$2a$", "$2b$", "$2x$", "$2y$", "$5$", "$6$", "$7$", "$y$", "$gy$", "$apr1$", "$md5$", "$sha1$", "pbkdf2", "$scrypt$", "argon2", "{sha", "{ssha", "{smd5"},
		re: expression(`(^|[\s:="'>,])[!*]*(\$(1|2[abxy]|5|6|7|g?y|apr1|md5|sha1|pbkdf2[\w-]*|scrypt|argon2id?)\$[./A-Za-z0-9$=,+-]{20,}|\{S?(SHA|MD5)\d*\}[A-Za-z0-9+/=]{20,}|(pbkdf2_sha\d+|argon2)\$[./A-Za-z0-9$=,+]{20,})|\bgrub\.pbkdf2\.sha512\.\d+\.[0-9A-F]{32,}`)},
	{kind: "a password of Terraform", text: true, hints: []string{"password"}, in: named("*.tf", "*.hcl", "*.tfvars"), re: expression(`(?i)password"?\s*=\s*"[^"$\s]{8,}"`)},
	{kind: "credentials of an HTTP header", text: true, hints: []string{"-h", "--header"}, digit: true,
		re: expression(`(?i)\s(-H|--header)[\s=]*["'](authorization|(x-([a-z]+-)?|private-|job-)?(api-?)?(key|token))\s*:\s*((api-?)?token\s+)?[\w=~@.+/-]{8,}["']`)},
	{kind: "a password of a command", text: true, hints: []string{"curl"}, re: expression(`\bcurl\b`),
		then: expression(`^([^\n]*\\\n){0,5}[^\n]*\s(-u|--user|-U|--proxy-user)[\s=]*["']?[^\s"'$:<>{}%*]+:[^\s"'$:<>{}%*]{3,}`)},
	{kind: "a Secret of Kubernetes", text: true, hints: []string{"kind"}, re: expression(`^[\s{-]*"?kind"?:\s*["']?Secret["']?[\s,]*$`),
		then: expression(`^(\n([^-\n][^\n]*)?)*?\n\s*"?(data|stringData)"?:[\s{]*?` + secretData)},
	{kind: "a Secret of Kubernetes", text: true, hints: []string{"data", "stringdata"}, re: expression(`^[\s{-]*"?(data|stringData)"?:[\s{]*$`),
		then: expression(`^` + secretData + `[^\n]*(\n([^-\n][^\n]*)?)*?\n\s*"?kind"?:\s*["']?Secret["']?[\s,}]*(\n|$)`)},
	{kind: "a kubeconfig of one cluster", text: true, hints: []string{"server:"}, in: unusual, re: expression(`^\s+server:\s*["']?https?://[\w.:-]+`),
		sample: expression(`//(127\.|localhost|kubernetes)|example`), then: expression(`^[^\n]*\n(?:[^\n]*\n)*?(?:contexts|users|current-context|kind):`)},
	{kind: "a PKCS #12 key store", in: named("*.p12", "*.pfx", "*.P12", "*.PFX")},
	{kind: "a secret of an environment", text: true, hints: []string{"passw", "secret", "token", "key", "passphrase"}, in: environments, digit: true,
		re: expression(`(?i)^[^#]*\b([A-Z0-9]+_)*(PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_?KEY|SECRET_?KEY|PRIVATE_?KEY)\s*=\s*["']?[^\s"'$%/<{}()*\x60\\][^\s"'<>$()]{7,}`)},
}

// unusual selects kubeconfigs in other places than those that rules cover.
func unusual(name string) bool { return settings(name) && !kept(namingServers, name) }

func allSecrets() []pattern {
	return slices.Concat(secretPatterns, tokenPatterns(), cloudPatterns(), commandPatterns(), namedPatterns(), assignmentPatterns(), []pattern{servicePattern()})
}

// secretsLeft searches everything but the unchanged files of packages. Without a
// readable database of packages it searches those too.
func secretsLeft(d *draft) {
	known := d.originals
	if known.read(d.ctx, d.h) != nil {
		known = nil // the rule changed-files has the error
	}
	found, err := search{taken: d.taken, words: newIndex(allSecrets()), keys: true, known: known}.in(d.ctx, d.h, "/")
	d.found(found...)
	d.failed(err)
}

// networkFiles configure the machine's network.
var networkFiles = below("/etc/netplan", "/etc/network", "/etc/systemd/network", "/etc/NetworkManager", "/etc/sysconfig/network", "/etc/sysconfig/network-scripts", "/etc/udev/rules.d", "/etc/wicked")

// ofOneAccount selects the files in which an AWS account is no configuration of the
// image: registries and roles are, of the programs that pull images or log in.
func ofOneAccount(name string) bool {
	return settings(name) && noSamples(name) && !below("/etc/eks", "/etc/kubernetes", "/etc/containerd", "/etc/aws")(name)
}

// hostPatterns match IDs of one EC2 instance, whose DMI UUID starts with ec2,
// and of one cluster.
var hostPatterns = []pattern{
	{kind: "an EC2 instance id", hints: []string{"i-"}, re: expression(`\bi-([0-9a-f]{17}|[0-9a-f]{8})\b`), sample: expression(`i-1234567890abcdef0`), digit: true},
	{kind: "the id of a network interface in EC2", hints: []string{"eni-"}, re: expression(`\beni-([0-9a-f]{17}|[0-9a-f]{8})\b`), sample: expression(`eni-1234567890abcdef0`), digit: true},
	{kind: "an EC2 instance's UUID", hints: []string{"ec2"}, re: expression(`(?i)\bec2[0-9a-f]{5}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)},
	{kind: "an EC2 instance's host name", hints: []string{"ip-"}, re: expression(`\bip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}\b`)},
	{kind: "a network interface's address", hints: []string{"mac", "addr"}, in: networkFiles,
		re: expression(`(?i)\b(mac-?addr(?:ess)?|hwaddr|lladdr|cloned-mac-address|address\})\s*[:=]+\s*["']?([0-9a-f]{2}:){5}[0-9a-f]{2}`)},
	{kind: "an AWS account's id", hints: []string{"account"}, in: ofOneAccount,
		re: expression(`(?i)\baccount[_-]?(?:id)?["']?\s*[:=]\s*["']?(\d{12})\b`), sample: expression(`123456789012|0{12}|1{12}`)},
	{kind: "an EKS cluster's endpoint", hints: []string{".eks", ".api.aws"}, re: clusterEndpoint},
}

// hostIDsLeft reports IDs of the builder machine and of the old cluster.
func hostIDsLeft(d *draft) {
	patterns := slices.Clone(hostPatterns)
	for kind, name := range map[string]string{
		"this machine's id": "/etc/machine-id", "this machine's DMI UUID": "/sys/class/dmi/id/product_uuid",
	} {
		if id := strings.TrimSpace(string(d.small(name))); len(id) >= 32 {
			patterns = append(patterns, pattern{kind: kind, hints: []string{strings.ToLower(id[:8])}, re: anyForm(id)})
		}
	}
	if d.err != nil {
		return
	}
	found, err := search{taken: d.taken, words: newIndex(patterns)}.in(d.ctx, d.h, searchedForIDs...)
	d.found(slices.DeleteFunc(found, func(a plan.Finding) bool {
		return idsOwn(a.Target) || d.taken.by(a.Target, plan.Restore, plan.Write) || reportedIn(d.h, a.Target)
	})...)
	d.failed(err)
}

// reportedIn reports whether the rule enrolled-agents or host-names reports a file.
func reportedIn(h *host.Host, name string) bool {
	return slices.ContainsFunc(slices.Concat(enrolledAgents, hostNames), func(l leftover) bool {
		d := &draft{h: h}
		return kept(l.paths, name) && l.in(d, name) && d.err == nil
	})
}

var searchedForIDs = []string{"/etc", "/home", "/opt", "/root", "/srv", "/usr/local", "/var/db", "/var/lib", "/var/opt"}

// idsOwn reports whether a file is the place for the machine's own ID. The rule
// cloud-init covers cloud-init's files, but not the scripts of the image. A
// platform may mount the seed with the machine's ID.
func idsOwn(name string) bool {
	return name == "/etc/machine-id" || name == "/var/lib/dbus/machine-id" || strings.HasPrefix(name, "/var/lib/cloud/") && !strings.HasPrefix(name, "/var/lib/cloud/scripts/")
}

// anyForm matches a UUID with and without hyphens, in lower and upper case.
func anyForm(id string) func() *regexp.Regexp {
	plain := strings.ReplaceAll(id, "-", "")
	if awsAccount.MatchString(id) { // in ARNs and names of registries, accounts are normal
		return expression(`(?:^|[^\w.:-])` + id + `(?:$|[^\w.:-])`)
	}
	if len(plain) != 32 {
		return expression(`(?i)\b` + regexp.QuoteMeta(id) + `\b`)
	}
	return expression(`(?i)\b` + strings.Join([]string{plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]}, "-?") + `\b`)
}
