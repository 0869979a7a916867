package config

// Field is what a rewrite changes.
type Field string

// The fields.
const (
	RewriteName  Field = "name"  // of the question
	RewriteType  Field = "type"  // of the question
	RewriteClass Field = "class" // of the question
	RewriteTTL   Field = "ttl"   // of the answer's records
	RewriteRcode Field = "rcode" // of the answer
)

// Match is how a name is compared.
type Match string

// The ways to compare. Names are compared in lower case with a final dot.
const (
	Exact     Match = "exact"
	Prefix    Match = "prefix"
	Suffix    Match = "suffix"
	Substring Match = "substring"
	Regex     Match = "regex"
)

// Rewrite changes a question before it is answered, and the answer back. The client always sees its own question, and
// records of the rewritten name under the name that it asked for.
type Rewrite struct {
	At       Position
	Continue bool // the next rule is tried even when this one matched
	Field    Field

	Match Match  // RewriteName, RewriteTTL, RewriteRcode
	From  string // a name, a part of one, or a regular expression (RE2)
	To    string // RewriteName: may refer to groups of a regular expression: {1}

	FromType, ToType   uint16 // RewriteType
	FromClass, ToClass uint16 // RewriteClass
	MinTTL, MaxTTL     uint32 // RewriteTTL: seconds
	FromRcode, ToRcode int    // RewriteRcode: FromRcode -1 = any

	Answers []AnswerRewrite // RewriteName: in addition to the name that was rewritten
}

// AnswerRewrite changes names in an answer.
type AnswerRewrite struct {
	Value bool   // names in the records' data, not their owners
	From  string // a regular expression (RE2)
	To    string // may refer to its groups: {1}
}

// Template makes answers out of the question.
type Template struct {
	At    Position
	Class uint16   // ANY = all
	Type  uint16   // ANY = all
	Zones []string // empty = those of the block
	Match []string // regular expressions (RE2), tried in this order; empty = every name

	// Records in text form, as Go templates.
	Answer, Additional, Authority []string

	Rcode int
	Fall  Fall // when the name is in Zones and nothing matches; else the answer is SERVFAIL
}
