package scrub

import (
	"regexp"
	"strings"
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
