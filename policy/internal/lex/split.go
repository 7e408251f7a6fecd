package lex

import "strings"

// A Statement is the text of one statement: from its first token, without the
// semicolon. Commands of psql are listed and blanked out in it.
type Statement struct {
	Start, End int
	Text       string // as long as End-Start
}

// Split finds the statements of a text, and psql's commands. Data that follows a
// COPY … FROM STDIN up to a line \. is neither.
func Split(sql string) (statements []Statement, commands []Token) {
	s := &splitter{sql: sql}
	for i := 0; i < len(sql); {
		if end := skip(sql, i); end > i {
			i = end
			continue
		}
		t := next(sql, i)
		i = s.token(t)
	}
	s.close(len(sql))
	return s.statements, s.commands
}

type splitter struct {
	sql        string
	statements []Statement
	commands   []Token

	tokens []Token // of the current statement, commands left out
	inside []Token // commands inside the current statement
	parens int
	bodies int // BEGIN ATOMIC … END, and CASE … END within
}

// token takes a token and returns where to go on.
func (s *splitter) token(t Token) int {
	if t.Kind == Command {
		return s.command(t)
	}
	text := t.Text(s.sql)
	if t.Kind == Symbol {
		switch text {
		case "(":
			s.parens++
		case ")":
			s.parens = max(0, s.parens-1)
		case ";":
			if s.parens == 0 && s.bodies == 0 {
				return s.end(t)
			}
		}
	}
	if t.Kind == Word && s.parens == 0 && s.routine() {
		switch strings.ToLower(text) {
		case "begin":
			s.bodies++
		case "case":
			if s.bodies > 0 {
				s.bodies++
			}
		case "end":
			s.bodies = max(0, s.bodies-1)
		}
	}
	s.tokens = append(s.tokens, t)
	return t.End
}

// end ends a statement at its semicolon, and skips the data that may follow.
func (s *splitter) end(semicolon Token) int {
	copies := s.copies()
	s.close(semicolon.Start)
	if copies {
		return dataEnd(s.sql, semicolon.End)
	}
	return semicolon.End
}

func (s *splitter) command(t Token) int {
	s.commands = append(s.commands, t)
	if strings.HasPrefix(t.Text(s.sql), `\g`) { // sends what stands before it
		s.close(t.Start)
	} else if len(s.tokens) > 0 {
		s.inside = append(s.inside, t)
	}
	return t.End
}

func (s *splitter) close(end int) {
	if len(s.tokens) > 0 {
		start := s.tokens[0].Start
		end = min(end, s.tokens[len(s.tokens)-1].End)
		text := s.sql[start:end]
		for _, c := range s.inside {
			if c.End <= end {
				text = text[:c.Start-start] + strings.Repeat(" ", c.End-c.Start) + text[c.End-start:]
			}
		}
		s.statements = append(s.statements, Statement{start, end, text})
	}
	s.tokens, s.inside, s.parens, s.bodies = nil, nil, 0, 0
}

// routine reports whether the statement creates a function or a procedure, whose
// body can be statements between BEGIN ATOMIC and END.
func (s *splitter) routine() bool {
	words := s.tokens
	if len(words) < 2 || !words[0].Is(s.sql, "create") {
		return false
	}
	words = words[1:]
	if len(words) > 2 && words[0].Is(s.sql, "or") && words[1].Is(s.sql, "replace") {
		words = words[2:]
	}
	return words[0].Is(s.sql, "function") || words[0].Is(s.sql, "procedure")
}

// copies reports whether the statement is COPY … FROM STDIN.
func (s *splitter) copies() bool {
	if len(s.tokens) == 0 || !s.tokens[0].Is(s.sql, "copy") {
		return false
	}
	for i, t := range s.tokens[1:] {
		if t.Is(s.sql, "stdin") && s.tokens[i].Is(s.sql, "from") {
			return true
		}
	}
	return false
}

// dataEnd is the end of the data at i: behind a line \., or i if there is no such line.
func dataEnd(sql string, i int) int {
	for at := i; at < len(sql); {
		end := len(sql)
		if n := strings.IndexByte(sql[at:], '\n'); n >= 0 {
			end = at + n + 1
		}
		if strings.TrimRight(sql[at:end], "\r\n") == `\.` {
			return end
		}
		at = end
	}
	return i
}
