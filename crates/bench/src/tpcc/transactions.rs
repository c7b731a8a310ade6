//! The five transactions, written down as operations on the index.

use super::Transaction;
use super::database::{DISTRICT_COUNT, Database, DistrictId, Order, Table};
use crate::random::Random;
use crate::stream::Step;
use crate::workload::Action;

/// Customers of one name that a search by name reads.
const NAMESAKES: u32 = 3;
/// Orders that Stock-Level looks at.
const RECENT_ORDERS: usize = 20;

/// Writes down the operations of one thread.
pub(super) struct Recorder {
    random: Random,
    words: Vec<u64>,
    steps: Vec<Step>,
}

impl Recorder {
    pub fn new(random: Random) -> Self {
        Recorder { random, words: Vec::new(), steps: Vec::new() }
    }

    /// Operations so far.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn inserted(&self) -> u64 {
        self.count(Action::Insert)
    }

    pub fn removed(&self) -> u64 {
        self.count(Action::Remove)
    }

    fn count(&self, action: Action) -> u64 {
        self.steps.iter().filter(|step| step.action == action).count() as u64
    }

    /// Keys as words, and what is done with them.
    pub fn into_operations(self) -> (Vec<u64>, Vec<Step>) {
        (self.words, self.steps)
    }

    /// Adds one transaction in this district, of a warehouse that is the thread's own.
    pub fn add(&mut self, transaction: Transaction, database: &mut Database, home: DistrictId) {
        match transaction {
            Transaction::NewOrder => self.new_order(database, home),
            Transaction::Payment => self.payment(database, home),
            Transaction::OrderStatus => self.order_status(database, home),
            Transaction::Delivery => self.delivery(database, home.warehouse),
            Transaction::StockLevel => self.stock_level(database, home),
        }
    }

    fn step(&mut self, action: Action, word: u64, length: u32) {
        self.words.push(word);
        self.steps.push(Step { action, length });
    }

    fn get(&mut self, word: u64) {
        self.step(Action::Get, word, 0);
    }

    fn insert(&mut self, word: u64) {
        self.step(Action::Insert, word, 0);
    }

    fn scan(&mut self, word: u64, length: usize) {
        self.step(Action::Scan, word, length as u32);
    }

    fn get_and_update(&mut self, word: u64) {
        self.get(word);
        self.step(Action::Update, word, 0);
    }

    /// Another warehouse in this share of the cases, if there is one.
    fn maybe_elsewhere(&mut self, database: &Database, home: u64, percent: u64) -> u64 {
        let other = self.random.below(database.warehouse_count);
        if self.random.below(100) < percent { other } else { home }
    }

    /// Finds a customer, by name in six of ten cases.
    fn customer(&mut self, database: &Database, place: DistrictId) -> u64 {
        let mut customer = database.draw_customer(&mut self.random);
        if self.random.below(100) < 60 {
            let name = database.name_of(customer);
            self.scan(place.customer_name(name, 0), NAMESAKES as usize);
            customer = name;
        }
        customer
    }

    fn new_order(&mut self, database: &mut Database, home: DistrictId) {
        let customer = database.draw_customer(&mut self.random);
        let items = database.draw_items(&mut self.random);
        let number = database.district(home).orders.len();
        self.get(home.key(Table::Customer, customer));
        self.get(DistrictId { district: 0, ..home }.key(Table::Warehouse, 0));
        self.get_and_update(home.key(Table::District, 0));
        self.insert(home.key(Table::Order, number as u64));
        self.insert(home.order_of_customer(customer, number as u64));
        self.insert(home.key(Table::NewOrder, number as u64));
        for (line, item) in items.iter().enumerate() {
            let item = u64::from(*item);
            let supplier = self.maybe_elsewhere(database, home.warehouse, 1);
            self.get(DistrictId { warehouse: 0, district: 0 }.key(Table::Item, item));
            self.get_and_update(
                DistrictId { warehouse: supplier, district: 0 }.key(Table::Stock, item),
            );
            self.insert(home.order_line(number as u64, line));
        }
        let district = database.district(home);
        district.latest[customer as usize] = number;
        district.orders.push(Order { customer, items });
    }

    fn payment(&mut self, database: &mut Database, home: DistrictId) {
        let warehouse = self.maybe_elsewhere(database, home.warehouse, 15);
        let place = match warehouse == home.warehouse {
            true => home,
            false => DistrictId { warehouse, district: self.random.below(DISTRICT_COUNT) },
        };
        self.get_and_update(DistrictId { district: 0, ..home }.key(Table::Warehouse, 0));
        self.get_and_update(home.key(Table::District, 0));
        let customer = self.customer(database, place);
        self.get_and_update(place.key(Table::Customer, customer));
        let district = database.district(home);
        self.insert(home.key(Table::History, district.history));
        district.history += 1;
    }

    fn order_status(&mut self, database: &mut Database, home: DistrictId) {
        let customer = self.customer(database, home);
        self.get(home.key(Table::Customer, customer));
        self.scan(home.key(Table::OrderOfCustomer, customer << 24), 1);
        let district = database.district(home);
        let number = district.latest[customer as usize];
        let lines = district.orders[number].items.len();
        self.get(home.key(Table::Order, number as u64));
        self.scan(home.order_line(number as u64, 0), lines);
    }

    fn delivery(&mut self, database: &mut Database, warehouse: u64) {
        for district in 0..DISTRICT_COUNT {
            let place = DistrictId { warehouse, district };
            let state = database.district(place);
            self.scan(place.key(Table::NewOrder, 0), 1);
            let number = state.undelivered;
            let Some(order) = state.orders.get(number) else { continue };
            self.step(Action::Remove, place.key(Table::NewOrder, number as u64), 0);
            self.get_and_update(place.key(Table::Order, number as u64));
            self.scan(place.order_line(number as u64, 0), order.items.len());
            for line in 0..order.items.len() {
                self.step(Action::Update, place.order_line(number as u64, line), 0);
            }
            self.get_and_update(place.key(Table::Customer, order.customer));
            state.undelivered += 1;
        }
    }

    fn stock_level(&mut self, database: &mut Database, home: DistrictId) {
        self.get(home.key(Table::District, 0));
        let orders = &database.district(home).orders;
        let first = orders.len().saturating_sub(RECENT_ORDERS);
        let mut items: Vec<u32> =
            orders[first..].iter().flat_map(|order| order.items.iter().copied()).collect();
        self.scan(home.order_line(first as u64, 0), items.len());
        items.sort_unstable();
        items.dedup();
        for item in items {
            let stock = DistrictId { district: 0, ..home };
            self.get(stock.key(Table::Stock, u64::from(item)));
        }
    }
}
